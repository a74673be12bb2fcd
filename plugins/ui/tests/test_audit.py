"""The audit log: what is in it, what is not, its files, and its page."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from leadline.cli.main import run
from leadline.plugins.ui import audit as audit_log
from leadline.plugins.ui.access import AccessControl, TokenKeeper, Tries
from leadline.plugins.ui.app import workbench
from leadline.plugins.ui.audit import AuditLog
from leadline.plugins.ui.site import PersonRole
from leadline.plugins.ui.users import UserKeeper, add_user
from leadline.tasks.store.store import Store

TOKEN = "a token for the page"
PASSWORD = "correct horse"


def client(store: Store) -> TestClient:
    keeper = TokenKeeper(TOKEN, tries=Tries(AuditLog(store).refuse))
    return TestClient(AccessControl(workbench(store), keeper), follow_redirects=False, client=("192.0.2.7", 1))


def lines(store: Store) -> list[dict[str, object]]:
    """Return the entries of all servers by time: which of their files comes first is drawn."""
    entries = [json.loads(line) for file in (store.root / "audit").glob("*") for line in file.open()]
    return sorted(entries, key=itemgetter("at"))


def test_what_a_form_did_is_appended_with_who_when_and_from_where(store: Store) -> None:
    web = client(store)
    web.get("/", params={"token": TOKEN})
    csrf = re.search(r'name="csrf" value="(\w+)"', web.get("/work").text)
    assert csrf
    assert web.post("/labels/name", data={"csrf": csrf[1], "name": "ada"}).status_code == 303
    (entry,) = lines(store)
    assert (entry["did"], entry["address"]) == ("/labels/name", "192.0.2.7")
    assert str(entry["at"]).startswith(datetime.now(UTC).date().isoformat()[:8])
    page = web.get("/audit").text
    assert "192.0.2.7" in page
    assert "/labels/name" in page


def test_what_was_refused_as_a_form_is_not_told_as_done(store: Store) -> None:
    web = client(store)
    web.get("/", params={"token": TOKEN})
    assert web.post("/labels/name", data={"csrf": "forged", "name": "ada"}).status_code == 403
    assert lines(store) == []


def test_refused_sign_ins_are_told_without_what_was_tried(store: Store, tmp_path: Path) -> None:
    client(store).get("/", params={"token": "not the token"})
    people = tmp_path / "people.toml"
    add_user(people, "vera", PersonRole.VIEWER, PASSWORD)
    web = TestClient(AccessControl(workbench(store), UserKeeper(people, TOKEN, tries=Tries(AuditLog(store).refuse))))
    for name in ("vera", "my secret typed as a name"):
        assert web.post("/login", data={"name": name, "password": "wrong password"}).status_code == 401
    assert [(one["did"], one["person"]) for one in lines(store)] == [
        ("sign-in refused", ""), ("sign-in refused", "vera"), ("sign-in refused", ""),
    ]  # fmt: skip
    text = "".join(file.read_text() for file in (store.root / "audit").glob("*"))
    assert not re.search("not the token|wrong password|my secret", text)


def test_who_tries_all_names_does_not_fill_the_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "REFUSALS", 3)
    log, request = AuditLog(store), TestClient(workbench(store)).build_request("GET", "/")
    scope = {"type": "http", "client": ("192.0.2.7", 1), "headers": [], "url": str(request.url)}
    for _ in range(5):
        log.refuse(audit_log.Request(scope))
    log.write("labelled", person="ada")
    assert len(lines(store)) == 4
    assert "not listed" in json.dumps(lines(store)[2])


def test_secrets_of_this_process_are_masked(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdefghij")
    AuditLog(store).write("started work", about={"command": "x sk-0123456789abcdefghij", "n": 3, "model": None})
    (entry,) = lines(store)
    assert "0123456789abcdefghij" not in json.dumps(entry)
    assert (entry["about"]["n"], "model" in entry["about"]) == (3, False)  # type: ignore[index,operator]


def test_entries_come_newest_first_over_all_files_and_damaged_lines_are_told(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "PART", 300)
    log = AuditLog(store)
    for number in range(12):
        log.write("labelled", person="ada", about={"row": number})
    files = sorted((store.root / "audit").glob("*.jsonl"))
    assert len(files) > 1
    assert all(file.stat().st_size < 600 for file in files)
    entries, total = log.entries(2, 3)
    assert ([entry.about["row"] for entry in entries], total) == ([9, 8, 7], 12)
    with files[0].open("ab") as file:
        file.write(b"half a l")
    assert "a damaged line" in {entry.did for entry in log.entries(0, 99)[0]}


def test_files_of_long_ago_are_removed_when_a_part_begins(store: Store) -> None:
    folder = store.root / "audit"
    folder.mkdir()
    (folder / "2020-01-0a0a0a0a-0000.jsonl").write_text("{}\n")
    log = AuditLog(store)
    log.write("labelled")
    log._shares.shutdown()
    assert [file.name[:4] for file in folder.glob("*")] == [str(datetime.now(UTC).year)]


def test_a_log_that_cannot_be_written_stops_nobody(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    (store.root / "audit").write_text("a file in the folder's place")
    AuditLog(store).write("labelled")
    assert "cannot be written" in caplog.text


def test_only_editors_see_it(store: Store) -> None:
    assert TestClient(workbench(store)).get("/audit").status_code == 403
    assert "/audit" not in TestClient(workbench(store)).get("/work").text


def test_a_user_added_at_a_terminal_is_told(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.prompt", lambda *_, **__: PASSWORD)
    people = str(tmp_path / "people.toml")
    assert run(["ui", "--store", str(store.root), "--users", people, "--add-user", "ada", "--role", "editor"]) == 0
    (entry,) = lines(store)
    assert (entry["did"], entry["about"]) == ("added a user", {"user": "ada", "role": "editor", "file": people})


def test_hostile_texts_are_texts(store: Store) -> None:
    AuditLog(store).write("labelled", person="<script>alert(1)</script>\u2028", about={"<b>": "</table>\n{}"})
    web = client(store)
    web.get("/", params={"token": TOKEN})
    page = web.get("/audit").text
    assert "<script>alert" not in page
    assert "&lt;/table&gt;" in page
