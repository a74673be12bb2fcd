# What a person runs: make demo, make test, make lint. Everything lives in .venv; nothing is installed elsewhere.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
EXTRAS := models,offline,summarization,vision,judge,mcp,generate,service
# Some tests need Chromium, some PostgreSQL and Redis; what is not installed is left out, and CI always has all of it.
POSTGRES := $(or $(shell command -v initdb),$(wildcard /usr/lib/postgresql/*/bin/initdb))
SERVICE  := $(and $(POSTGRES),$(shell command -v redis-server))
LEFT_OUT := $(if $(shell command -v chromium),, and not browser)$(if $(POSTGRES),, and not postgres)
# A file's tests stay together, since they share what is dear to start; tests/conftest.py puts the longest files first.
PARALLEL := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: help demo service service-stop test test-fast lint format docs bench constraints clean

help:
	@echo "make demo       build the environment and evaluate the sample dataset"
	@echo "make service    run server, PostgreSQL, Redis and workers as processes, until Ctrl-C or make service-stop"
	@echo "make test       build the environment and run all tests"
	@echo "make test-fast  run the tests that start no server, model or browser"
	@echo "make lint       check style, types and the import rule"
	@echo "make docs       write the evaluators' pages"
	@echo "make bench      print the benchmarks' ratios"

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable ".[models,offline]"
	@touch $@

$(VENV)/.service: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable ".[$(EXTRAS)]"
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable ".[$(EXTRAS),dev]"
	@touch $@ $(VENV)/.demo $(VENV)/.service

demo: $(VENV)/.demo
	$(BIN)/leadline evaluate examples/harbour.json --embedder offline --name "Harbour demo" \
	  --param 'classification.categories=["classification"]'

service: $(VENV)/.service
	$(BIN)/python -m leadline.deployments.service start

service-stop:
	$(BIN)/python -m leadline.deployments.service stop

test: $(VENV)/.dev
	$(PARALLEL) -m "not service$(LEFT_OUT)"
	$(if $(SERVICE),$(BIN)/pytest tests/service -m "service$(LEFT_OUT)")  # one service for all of them, so not in parallel

test-fast: $(VENV)/.dev
	$(PARALLEL) -m "not slow and not browser and not postgres and not service"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev
	$(BIN)/python -m docs.build

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.all

# The newest versions that satisfy pyproject.toml, written down; look at the difference before committing it.
constraints: | $(VENV)/bin/python
	$(BIN)/python -m pip install --upgrade --editable ".[$(EXTRAS),dev]"
	(echo "# Exact versions of everything that Leadline installs, extras included. Renew with: make constraints"; \
	  $(BIN)/python -m pip list --format=freeze --exclude-editable --exclude pip --exclude setuptools \
	  | sed "s/^torch==.*/torch==2.13.0/" | sort -f) > constraints.txt

clean:
	rm -rf $(VENV) .leadline build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
