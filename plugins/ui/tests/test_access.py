"""Access: users and roles, sessions, forms, names of the host, wrong tries, and what a proxy says."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.testclient import TestClient

from leadline.evaluators.ground import UsageError
from leadline.plugins.ui import users as user_files
from leadline.plugins.ui.access import TRIES, AccessControl, Doorkeeper, TokenKeeper
from leadline.plugins.ui.app import workbench
from leadline.plugins.ui.site import MOST_FORM, PersonRole, does, person_of, shows
from leadline.plugins.ui.users import ProxyKeeper, UserKeeper, add_user, read_users
from leadline.tasks.store.store import Store

KEY = "a secret of the server"
PASSWORD = "correct horse"


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_files, "_COST", 2)
    monkeypatch.setattr(user_files.hashed, "__defaults__", (None, 2))


@pytest.fixture
def people(tmp_path: Path) -> Path:
    file = tmp_path / "people.toml"
    for name, role in (("vera", PersonRole.VIEWER), ("lars", PersonRole.LABELLER), ("edda", PersonRole.EDITOR)):
        add_user(file, name, role, PASSWORD)
    return file


def echo() -> Starlette:
    """An application that says who asks, and has a form for labellers."""

    def who(request: Request) -> Response:
        person = person_of(request)
        return PlainTextResponse(f"{person.name}/{person.role.name}/{person.csrf}")

    def label(request: Request, form: Mapping[str, str]) -> Response:
        return PlainTextResponse(f"{person_of(request).name} says {form['value']}")

    return Starlette(routes=[shows("/", who), does("/label", PersonRole.LABELLER, label)])


def behind(keeper: Doorkeeper, *, hosts: frozenset[str] | None = None, address: str = "testclient") -> TestClient:
    return TestClient(AccessControl(echo(), keeper, hosts), follow_redirects=False, client=(address, 1))


def signed_in(file: Path, name: str, password: str = PASSWORD) -> TestClient:
    web = behind(UserKeeper(file, KEY))
    answer = web.post("/login", data={"name": name, "password": password, "wanted": "/"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    return web


def csrf(web: TestClient) -> str:
    return web.get("/").text.rpartition("/")[2]


def test_people_sign_in_by_name_and_nobody_else_reads(people: Path) -> None:
    assert signed_in(people, "vera").get("/").text.startswith("vera/VIEWER/")
    web = behind(UserKeeper(people, KEY))
    for name, password in (("vera", "wrong password"), ("nobody", PASSWORD), ("vera", ""), ("", "")):
        assert web.post("/login", data={"name": name, "password": password}).status_code == 401
        assert web.get("/").status_code == 401


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        "vera",
        "vera|9999999999|",
        "vera|9999999999||00",
        "edda|{ends}||{seal}",
        "vera|99{ends}||{seal}",
        "vera|{ends}|EDITOR|{seal}",
        "vera|x||{seal}",
    ],
)
def test_a_session_that_the_server_did_not_sign_is_none(people: Path, cookie: str) -> None:
    own = signed_in(people, "vera").cookies["leadline-ui"].strip('"')
    _, ends, _, seal = own.split("|")
    web = behind(UserKeeper(people, KEY))
    assert web.get("/", headers={"Cookie": f"leadline-ui={own}"}).status_code == 200
    forged = cookie.format(ends=ends, seal=seal)
    assert web.get("/", headers={"Cookie": f"leadline-ui={forged}"}).status_code == 401


def test_a_session_ends_with_its_time_a_new_password_and_a_name_that_is_gone(
    people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vera, lars = signed_in(people, "vera"), signed_in(people, "lars")
    add_user(people, "vera", PersonRole.EDITOR, "another password")
    assert (vera.get("/").status_code, lars.get("/").status_code) == (401, 200)
    people.write_text(people.read_text().replace('[users."lars"]', '[users."someone"]'))
    assert lars.get("/").status_code == 401
    edda = signed_in(people, "edda")
    monkeypatch.setattr(user_files.time, "time", lambda: 1e11)
    assert edda.get("/").status_code == 401


def test_who_signs_out_is_out(people: Path) -> None:
    web = signed_in(people, "vera")
    web.get("/login")
    assert web.get("/").status_code == 401


def test_passwords_stand_nowhere_and_the_file_is_its_owners(people: Path) -> None:
    assert PASSWORD not in people.read_text()
    assert people.stat().st_mode & 0o77 == 0
    hashes = {user.password for user in read_users(people).values()}
    assert len(hashes) == 3, "each with a salt of its own"
    assert "scrypt" not in repr(read_users(people))


@pytest.mark.parametrize(
    ("name", "password"), [("a b", PASSWORD), ('x"]', PASSWORD), ("a|b", PASSWORD), ("ok", "short"), ("ok", "x" * 201)]
)
def test_names_and_passwords_that_cannot_be_used_are_refused(tmp_path: Path, name: str, password: str) -> None:
    with pytest.raises(UsageError):
        add_user(tmp_path / "people.toml", name, PersonRole.VIEWER, password)


@pytest.mark.parametrize("text", ["", "users = 3", "[users.x]", '[users.x]\nrole = "king"', "\x00"])
def test_a_file_of_users_that_cannot_be_read_is_said_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "people.toml").write_text(text)
    with pytest.raises(UsageError, match="cannot be read"):
        read_users(tmp_path / "people.toml")


def test_a_form_needs_its_role_and_the_value_of_its_own_page(people: Path) -> None:
    vera, lars = signed_in(people, "vera"), signed_in(people, "lars")
    assert lars.post("/label", data={"value": "good", "csrf": csrf(lars)}).text == "lars says good"
    assert vera.post("/label", data={"value": "good", "csrf": csrf(vera)}).status_code == 403
    for forged in ("", csrf(vera), "é"):
        assert lars.post("/label", data={"value": "good", "csrf": forged}).status_code == 403
    assert lars.post("/label", data={"value": "good"}).status_code == 403


def test_forms_of_other_kinds_and_of_any_size_are_refused(people: Path) -> None:
    lars = signed_in(people, "lars")
    assert lars.post("/label", json={"csrf": csrf(lars)}).status_code == 415
    assert lars.post("/label", data={"value": "x" * MOST_FORM, "csrf": csrf(lars)}).status_code == 413
    assert lars.get("/label").status_code == 405


@pytest.mark.parametrize("wanted", ["//elsewhere.example", "https://elsewhere.example", "/\\elsewhere.example"])
def test_signing_in_leads_to_no_other_site(people: Path, wanted: str) -> None:
    web = behind(UserKeeper(people, KEY))
    answer = web.post("/login", data={"name": "vera", "password": PASSWORD, "wanted": wanted})
    assert re.match(r"/[^/\\]", answer.headers["location"])


def test_who_is_wrong_too_often_waits_and_others_do_not(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper, token = UserKeeper(people, KEY), TokenKeeper(KEY)
    web, other = behind(keeper), behind(keeper, address="192.0.2.7")
    right = {"name": "vera", "password": PASSWORD}
    for _ in range(TRIES):
        assert web.post("/login", data=right | {"password": "wrong"}).status_code == 401
    assert (web.post("/login", data=right).status_code, other.post("/login", data=right).status_code) == (429, 303)
    by_token = behind(token)
    for _ in range(TRIES):
        assert by_token.get("/?token=wrong").status_code == 401
    assert by_token.get("/", params={"token": KEY}).status_code == 429
    assert by_token.get("/", headers={"Authorization": f"Bearer {KEY}"}).status_code == 401
    monkeypatch.setattr("leadline.plugins.ui.access.TRIES_S", 0.0)
    assert by_token.get("/", params={"token": KEY}).status_code == 303


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8585", 200),
        ("LOCALHOST", 200),
        ("[::1]:8585", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
    ],
)
def test_only_our_own_names_lead_to_a_page(host: str, status: int) -> None:
    web = behind(TokenKeeper(KEY), hosts=frozenset({"127.0.0.1", "localhost", "[::1]"}))
    assert web.get("/", headers={"Host": host, "Authorization": f"Bearer {KEY}"}).status_code == status


def test_a_proxy_says_who_asks_and_nobody_else_may(people: Path) -> None:
    keeper = ProxyKeeper("X-User", (ipaddress.ip_network("10.0.0.0/8"),), KEY, UserKeeper(people, KEY))
    proxy, other = behind(keeper, address="10.1.2.3"), behind(keeper, address="192.0.2.1")
    assert proxy.get("/", headers={"X-User": "edda"}).text.startswith("edda/EDITOR/")
    assert proxy.get("/", headers={"X-User": "new"}).text.startswith("new/VIEWER/")
    for headers in ({}, {"X-User": ""}, {"X-User": "a|b"}):
        assert proxy.get("/", headers=headers).status_code == 401
    assert other.get("/", headers={"X-User": "edda", "X-Forwarded-For": "10.1.2.3"}).status_code == 401


def test_the_name_of_who_is_signed_in_stands_on_the_pages(store: Store, people: Path) -> None:
    web = TestClient(AccessControl(workbench(store), UserKeeper(people, KEY)), follow_redirects=False)
    form = web.get("/cases").text
    assert 'name="wanted" value="/cases"' in form
    web.post("/login", data={"name": "vera", "password": PASSWORD})
    assert "<bdi>vera</bdi>" in web.get("/").text
