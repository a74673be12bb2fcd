"""The tutorial and the recipes work as a new user types them: in an empty folder, with the output that they show."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from leadline.cli.main import run
from leadline.evaluators.core import all_evaluators
from tests.support.docs.blocks import ROOT, SHELL, Block, blocks_of, walkthroughs

TUTORIAL = ROOT / "docs" / "tutorial.md"
ELSEWHERE = re.compile(r"leadline (doctor|evaluators models)\b")
"""Commands about the machine, or the network."""

ASKS = re.compile(r"--judge|\$\(")
"""Marks of commands that ask a judge, or another program."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEADLINE_SERVER", "none")
    for name in ("LEADLINE_STORE", "LEADLINE_JUDGE", "LEADLINE_TARGETS", "PREFECT_API_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


def as_in_a_new_process(folder: Path) -> None:
    """Forget the modules of the folder, which a page changes between its commands."""
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or "/").is_relative_to(folder):
            del sys.modules[name]


def shown(block: Block) -> list[tuple[list[str], list[str]]]:
    """Return the commands of a block, each with the lines of output below it."""
    outputs: list[list[str]] = []
    continued = False
    for line in block.text.splitlines():
        if line.startswith("$ "):
            outputs.append([])
        elif not continued:
            outputs[-1].append(line)
        continued = line.endswith("\\")
    return list(zip(list(block.commands()), outputs, strict=True))


def occurs(line: str, output: list[str]) -> bool:
    """Return whether a line occurs in an output, apart from white space; "…" stands for anything."""
    wanted = re.compile(
        ".*".join(re.escape(" ".join(part.split())) for part in line.split("…")).replace(".*", r"\s?.*")
    )
    return any(wanted.fullmatch(" ".join(real.split())) for real in output)


@pytest.mark.e2e
@pytest.mark.parametrize("page", walkthroughs(), ids=lambda page: page.stem)
def test_a_page_does_what_it_shows(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in blocks_of(page):
        if block.reason:
            continue
        if block.file:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            exec(compile(block.text, str(block), "exec"), names)
        elif block.language in SHELL:
            for words, lines in shown(block):
                line = " ".join(words)
                if words[0] != "leadline" or ELSEWHERE.match(line) or ASKS.search(line):
                    continue
                as_in_a_new_process(folder)
                code = run(words[1:])
                said = capsys.readouterr()
                output = [*said.out.splitlines(), *said.err.splitlines()]
                assert code in (0, 1), f"{block}: {words}\n{said.err}"
                missing = [line for line in lines if line.strip() not in ("", "…") and not occurs(line, output)]
                assert missing == [], f"{block}: {words}\n{said.out}\n{said.err}"


def test_the_files_of_the_tutorial_are_among_the_examples() -> None:
    written = {block.file: block.text for block in blocks_of(TUTORIAL) if block.file}
    folder = ROOT / "examples" / "rag_app"
    assert written == {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.is_file()}


def test_names_of_other_tools_are_translated_into_evaluators_that_there_are() -> None:
    page = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8").partition("## From ragas")[2]
    rows = re.findall(r"^\| (?!---)(.+?) \| (.+) \|$", page, re.MULTILINE)
    named = {id_ for _, ours in rows for id_ in re.findall(r"`([a-z][a-z_.]+)`", ours)}
    assert len(named) > 30
    others = {"question", "expected_answer", "rouge_1", "leadline.check", "perturb"}
    assert named - others - set(all_evaluators()) == set()
