"""Reading HTML and PDF: texts, sections, pages, and what cannot be read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.cli.main import run as leadline
from leadline.evaluators.text.sentences import splitter_for
from leadline.plugins.documents.html_and_pdf import read_page
from leadline.plugins.documents.sandbox import SandboxedReader
from leadline.tasks.generate import Cutting, read_corpus
from leadline.tasks.generate.documents import Document, Unreadable, find_files, read_documents
from tests.support.datasets.documents import write_pdf
from tests.support.processes.descendants import descendants, ended

ROOT = Path(__file__).parents[3]

READING = """
import sys, time
from leadline.plugins.documents.sandbox import SandboxedReader
reader = SandboxedReader()
reader._start()
print("started", flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def entry_points(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the readers as the package that is installed does, whatever version of it that is."""
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["leadline.documents"]
    package = tmp_path_factory.mktemp("installed") / "leadline_documents-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: leadline-documents\nVersion: 1\n")
    lines = "".join(f"{name} = {value}\n" for name, value in named.items())
    (package / "entry_points.txt").write_text(f"[leadline.documents]\n{lines}")
    monkeypatch.syspath_prepend(package.parent)


def read(path: Path, encoding: str | None = None) -> tuple[list[Document], list[str], list[str]]:
    faults: list[str] = []
    warnings: list[str] = []
    documents = list(read_documents(find_files([path]).files, faults, warnings, encoding=encoding))
    return documents, faults, warnings


def sections(document: Document) -> list[tuple[str, tuple[str, ...]]]:
    """Return the first word of each section with its titles."""
    return [(document.text[mark.start :].split()[0], mark.heading) for mark in document.marks if mark.heading]


def test_of_a_page_the_text_that_is_shown_is_read() -> None:
    source = """<!doctype html><html><head><title>Port</title><style>p{color:red}</style>
<script>var x="<p>no</p>"</script>
<body><nav><a>Home</a></nav><h1>Port</h1><p>Quay   dues are&nbsp;&pound;1 &lt;b&gt;.<br>Always.</p>
<h2>Tugs</h2><ul><li>Small<li>Large</ul><table><tr><th>Tug<th>Fee<tr><td>A<td>10</table>
<pre>a
  b</pre><noscript>Enable it</noscript><svg><text>No</text></svg><template>No</template></body></html>"""
    document = read_page("p.html", source.encode())
    assert document.text == (
        "Port\n\nQuay dues are\u00a0£1 <b>.\nAlways.\n\nTugs\n\n- Small\n- Large\n\nTug | Fee\nA | 10\n\na\n  b"
    ).replace("\u00a0", " ")
    assert sections(document) == [("Port", ("Port",)), ("Tugs", ("Port", "Tugs"))]


@given(st.text(alphabet="<>/ph1scriptabody=\"'&;! \n-", max_size=300))
def test_any_tag_soup_is_read(source: str) -> None:
    document = read_page("p.html", source.encode())
    starts = [mark.start for mark in document.marks]
    assert starts == sorted(set(starts))
    assert starts[0] == 0


def test_a_page_is_decoded_as_it_says_of_itself() -> None:
    page = '<meta http-equiv=x content="text/html; charset=windows-1252"><p>Käse – 5 €</p>'
    assert read_page("p", page.encode("cp1252")).text == "Käse – 5 €"
    assert read_page("p", b'<meta charset="zlib"><p>x</p>').text == "x"
    with pytest.raises(Unreadable, match="no UTF-8 text"):
        read_page("p", "<p>Käse</p>".encode("cp1252"))


@pytest.mark.slow
def test_a_pdf_is_read_page_by_page_with_the_sections_of_its_outline(tmp_path: Path) -> None:
    path = write_pdf(
        tmp_path / "port.pdf",
        ["Tides.\nHigh water (springs) is 5.4 m.", "More of it.", "Dues."],
        outline={"Tides": 0, "Dues": 2},
    )
    [document], faults, warnings = read(path)
    assert document.text == "Tides.\nHigh water (springs) is 5.4 m.\nMore of it.\nDues."
    assert [(mark.page, mark.heading) for mark in document.marks] == [
        (1, ("Tides",)),
        (2, ("Tides",)),
        (3, ("Dues",)),
    ]
    assert (faults, warnings) == ([], [])


@pytest.mark.slow
def test_every_file_that_cannot_be_read_is_named_in_a_line(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    write_pdf(folder / "locked.pdf", ["x"], password="secret")
    write_pdf(folder / "scan.pdf", [""])
    write_pdf(folder / "whole.pdf", ["A page of text."], owner="secret")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4\ngarbage")
    (folder / "fake.pdf").write_bytes(b"MZ")
    (folder / "latin.txt").write_bytes("Käse".encode("latin-1"))
    (folder / "blank.md").write_text("\n \n")
    unreadable = folder / "page.html"
    unreadable.write_bytes("Käse".encode("latin-1"))
    documents, faults, warnings = read(folder)
    assert [document.uri for document in documents] == ["d/whole.pdf"]
    assert [fault.split(";")[0].split(" (")[0] for fault in faults] == [
        "d/broken.pdf: it is a broken PDF: Stream has ended unexpectedly",
        "d/fake.pdf: it is no PDF",
        "d/latin.txt: it is no UTF-8 text",
        "d/locked.pdf: it is encrypted",
        "d/page.html: it is no UTF-8 text",
    ]
    assert [warning.split(" holds")[0] for warning in warnings] == ["d/blank.md", "d/scan.pdf"]
    assert [document.text for document in read(folder / "latin.txt", "latin-1")[0]] == ["Käse"]


@pytest.mark.slow
def test_a_file_that_keeps_its_reader_busy_is_given_up_and_the_next_one_read(tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text("<a b='" * 60_000)
    (tmp_path / "good.html").write_text("<p>Fine.</p>")
    bad, good = find_files([tmp_path / "bad.html", tmp_path / "good.html"]).files
    started = time.monotonic()
    with SandboxedReader(silence_s=4) as apart:
        with pytest.raises(Unreadable, match="given up"):
            apart.read(bad)
        assert apart.read(good).text == "Fine."
    assert time.monotonic() - started < 60


@pytest.mark.slow
def test_modules_in_the_working_directory_are_not_run_by_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path.cwd())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orjson.py").write_text("import pathlib; pathlib.Path('ran').touch()")
    (tmp_path / "a.html").write_text("<p>Fine.</p>")
    with SandboxedReader() as apart:
        assert apart.read(find_files([tmp_path / "a.html"]).files[0]).text == "Fine."
    assert not Path("ran").exists()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
def test_the_reader_ends_with_its_killed_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", READING], stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip()
            children = descendants(process.pid)
            assert children
        finally:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert ended(children) == []


@pytest.mark.slow
def test_questions_about_a_pdf_know_its_page_and_one_that_is_locked_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_pdf(
        tmp_path / "d.pdf", ["The north berth is twelve metres deep.", "The south berth is nineteen metres deep."]
    )
    found = read_corpus(find_files([tmp_path / "d.pdf"]), Cutting(50, 0), splitter_for("en", "rules"))
    assert [(chunk.page, chunk.last_page) for chunk in found.chunks] == [(1, 1), (2, 2)]
    write_pdf(tmp_path / "locked.pdf", ["x"], password="secret")
    arguments = ["data", "generate", str(tmp_path / "locked.pdf"), "--dry-run"]
    assert leadline(["--store", str(tmp_path / "store"), *arguments]) == 2
    assert "locked.pdf: it is encrypted" in capsys.readouterr().err
