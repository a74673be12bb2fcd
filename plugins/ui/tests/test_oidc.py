"""Signing in at a provider: over real HTTP, against one of our own that says what a test wants it to say."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest
from starlette.testclient import TestClient

from leadline.cli.main import run
from leadline.evaluators.ground import UsageError
from leadline.plugins.ui import oidc
from leadline.plugins.ui.access import TRIES, AccessControl, Tries
from leadline.plugins.ui.audit import AuditLog
from leadline.plugins.ui.oidc import OidcClient, OidcKeeper
from leadline.plugins.ui.site import PersonRole
from leadline.plugins.ui.tests.test_access import echo
from leadline.plugins.ui.users import Sessions, UserKeeper, add_user
from leadline.tasks.store.store import Store
from tests.support.processes.http_servers import QuietHandler, serving_http

jwt = pytest.importorskip("joserfc.jwt")
jwk = pytest.importorskip("joserfc.jwk")
pytest.importorskip("authlib")

KEY = "a secret of the server"
HOME = "http://leadline.example"
SECRET = "a secret of the client"
OWN, OTHER = (jwk.RSAKey.generate_key(2048, {"kid": kid}) for kid in ("own", "own"))


@dataclass
class Provider:
    """What the scripted provider says, and what it was asked."""

    issuer: str = ""
    claims: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=lambda: {"alg": "RS256", "kid": "own"})
    key: Any = field(default_factory=lambda: OWN)
    keys: list[dict[str, Any]] = field(default_factory=lambda: [OWN.as_dict(private=False)])
    about: dict[str, Any] = field(default_factory=dict)
    token: str | None = None
    asked: dict[str, str] = field(default_factory=dict)
    exchanges: list[dict[str, str]] = field(default_factory=list)

    def discovery(self) -> dict[str, Any]:
        places = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        return {"issuer": self.issuer, **{name: f"{self.issuer}/{path}" for name, path in places.items()}} | self.about

    def answer(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """Answer for a code: only for the client, and only to who knows the verifier of the challenge."""
        self.exchanges.append(form)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        basic = f"Basic {base64.b64encode(f'leadline:{SECRET}'.encode()).decode()}"
        if challenge.decode() != self.asked["code_challenge"] or authorization != basic or form["code"] != "a-code":
            return 400, {"error": "invalid_grant"}
        usual = {
            "iss": self.issuer, "aud": "leadline", "sub": "7", "exp": int(time.time()) + 300, "iat": int(time.time()),
            "nonce": self.asked["nonce"], "email": "Ada@example.org", "email_verified": True,
        }  # fmt: skip
        claims = {name: value for name, value in (usual | self.claims).items() if value is not None}
        token = self.token or jwt.encode(self.header, claims, self.key, algorithms=[self.header["alg"]])
        return 200, {"access_token": "x", "token_type": "Bearer", "id_token": token}


@pytest.fixture
def provider() -> Iterator[Provider]:
    script = Provider()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            kind = self.path.rpartition("/")[2]
            self.say(200, {"keys": script.keys} if kind == "keys" else script.discovery())

        def do_POST(self) -> None:
            form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            self.say(*script.answer(form, self.headers.get("Authorization", "")))

        def say(self, status: int, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving_http(Handler) as address:
        script.issuer = address
        yield script


@pytest.fixture
def people(tmp_path: Path) -> Path:
    file = tmp_path / "people.toml"
    add_user(file, "ada@example.org", PersonRole.LABELLER, "correct horse")
    return file


def client_of(provider: Provider, store: Store, users: Path | None, **how: Any) -> TestClient:
    known = UserKeeper(users, KEY) if users else None
    client = OidcClient(provider.issuer, "leadline", SECRET, **how)
    keeper = OidcKeeper(client, Sessions(KEY), HOME, known, Tries(AuditLog(store).refuse))
    return TestClient(AccessControl(echo(), keeper), base_url=HOME, follow_redirects=False)


def leave(web: TestClient, provider: Provider, path: str = "/") -> dict[str, str]:
    """Ask for a page, and be sent to the provider; returns what that is asked."""
    answer = web.get(path)
    assert answer.status_code == 303, answer.text
    place = urlsplit(answer.headers["location"])
    assert f"{place.scheme}://{place.netloc}{place.path}" == f"{provider.issuer}/authorize"
    provider.asked = {name: values[0] for name, values in parse_qs(place.query).items()}
    return provider.asked


def come_back(web: TestClient, **query: str) -> Any:
    return web.get(f"/login/oidc?{urlencode(query)}")


def sign_in(web: TestClient, provider: Provider, path: str = "/") -> Any:
    return come_back(web, state=leave(web, provider, path)["state"], code="a-code")


def why(store: Store) -> str:
    return str(AuditLog(store).entries()[0][0].about["why"])


def test_who_signs_in_comes_to_the_page_that_was_asked_for_with_the_role_of_the_file(
    provider: Provider, store: Store, people: Path
) -> None:
    web = client_of(provider, store, people)
    asked = leave(web, provider, "/label")
    assert (asked["client_id"], asked["redirect_uri"]) == ("leadline", f"{HOME}/login/oidc")
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert "openid" in asked["scope"].split()
    answer = come_back(web, state=asked["state"], code="a-code")
    assert (answer.status_code, answer.headers["location"]) == (303, "/label")
    assert web.get("/").text.startswith("ada@example.org/LABELLER/")
    assert "HttpOnly" in answer.headers["set-cookie"]
    csrf = web.get("/").text.rpartition("/")[2]
    assert web.post("/label", data={"csrf": csrf, "value": "good"}).text == "ada@example.org says good"
    assert web.get("/login").status_code == 401
    assert web.get("/").status_code == 303, "signed out"
    assert AuditLog(store).entries() == ([], 0)


def test_the_file_of_users_counts_at_each_request(provider: Provider, store: Store, people: Path) -> None:
    web = client_of(provider, store, people)
    sign_in(web, provider)
    people.write_text(people.read_text().replace("labeller", "editor"))
    assert web.get("/").text.startswith("ada@example.org/EDITOR/")
    people.write_text('[users."b"]\nrole = "viewer"\n')
    assert web.get("/").status_code == 303


@pytest.mark.parametrize(
    ("claim", "given", "role"),
    [
        ("groups", {"groups": ["staff", "leadline-editor", "viewer"]}, "EDITOR"),
        ("https://x.example/role", {"https://x.example/role": "labeller"}, "LABELLER"),
        ("realm_access.roles", {"realm_access": {"roles": ["viewer"]}}, "VIEWER"),
        ("groups", {"groups": ["staff"]}, ""),
        ("groups", {}, ""),
        ("groups", {"groups": {"editor": True}}, ""),
    ],
)
def test_roles_come_from_a_claim(
    provider: Provider, store: Store, claim: str, given: dict[str, Any], role: str
) -> None:
    provider.claims = given
    web = client_of(provider, store, None, role_claim=claim)
    assert sign_in(web, provider).status_code == (303 if role else 403)
    assert web.get("/").text.startswith(f"ada@example.org/{role}/" if role else "")
    assert bool(role) == (web.get("/").status_code == 200)


def test_who_has_no_role_is_told_so_and_the_audit_log_too(provider: Provider, store: Store, people: Path) -> None:
    provider.claims = {"email": "eve@example.org"}
    web = client_of(provider, store, people)
    assert "eve@example.org has no role here" in sign_in(web, provider).text
    assert web.get("/").status_code == 303
    assert why(store).startswith("eve@example.org has no role")


@pytest.mark.parametrize(
    ("claims", "header", "said"),
    [
        ({"nonce": "another"}, {}, "nonce"),
        ({"nonce": None}, {}, "nonce"),
        ({"exp": 1_700_000_000}, {}, "expired"),
        ({"exp": None}, {}, "exp"),
        ({"aud": "another client"}, {}, "aud"),
        ({"aud": ["leadline", "another"]}, {}, "azp"),
        ({"aud": None}, {}, "aud"),
        ({"iss": "https://elsewhere.example"}, {}, "iss"),
        ({"azp": "another client"}, {}, "azp"),
        ({"sub": None}, {}, "sub"),
        ({"email_verified": False}, {}, "not verified"),
        ({"email_verified": "true"}, {}, "not verified"),
        ({"email": "a|EDITOR|b"}, {}, "no name"),
        ({"email": None}, {}, "no name"),
        ({}, {"alg": "HS256", "kid": "own"}, "cannot be trusted"),
        ({}, {"alg": "none"}, "cannot be trusted"),
    ],
)
def test_a_token_that_is_not_for_this_sign_in_lets_nobody_in(
    provider: Provider, store: Store, people: Path, claims: dict[str, Any], header: dict[str, Any], said: str
) -> None:
    provider.claims, provider.header = claims, header or provider.header
    if provider.header["alg"] == "HS256":  # signed with a key that others have, too
        provider.key = jwk.OctKey.import_key("0123456789abcdef" * 4, {"kid": "own"})
        provider.keys = [provider.key.as_dict()]
        provider.about = {"id_token_signing_alg_values_supported": ["RS256", "HS256"]}
    if provider.header["alg"] == "none":
        provider.about = {"id_token_signing_alg_values_supported": ["RS256", "none"]}
    web = client_of(provider, store, people)
    answer = sign_in(web, provider)
    assert answer.status_code == 403
    assert said in why(store)
    assert "leadline-ui=" not in answer.headers.get("set-cookie", "")
    assert web.get("/").status_code == 303


def test_a_token_signed_by_another_key_or_not_at_all_lets_nobody_in(
    provider: Provider, store: Store, people: Path
) -> None:
    web = client_of(provider, store, people)
    provider.key = OTHER
    assert sign_in(web, provider).status_code == 403
    assert "signature" in why(store)
    for token in ("", "x", "a.b.c"):
        provider.token = token or "."
        assert sign_in(web, provider).status_code == 403


def test_only_the_browser_that_was_sent_may_come_back_once_and_in_time(
    provider: Provider, store: Store, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web, other = client_of(provider, store, people), client_of(provider, store, people)
    state = leave(web, provider)["state"]
    for forged in ({"state": "another"}, {"state": ""}, {}):
        assert come_back(web, code="a-code", **forged).status_code == 403
    assert come_back(other, state=state, code="a-code").status_code == 403
    assert provider.exchanges == [], "no code was shown to the provider"
    assert come_back(web, state=state, code="a-code", iss="https://elsewhere.example").status_code == 403
    assert come_back(web, state=state, error="access_denied<b>").status_code == 403
    assert "access_denied<b>" not in come_back(web, state=state, error="access_denied<b>").text
    assert come_back(web, state=state, code="a-code").status_code == 303
    assert come_back(web, state=state, code="a-code").status_code == 403, "once"
    state, began = leave(other, provider)["state"], time.time()
    monkeypatch.setattr(oidc.time, "time", lambda: began + oidc.SIGNING_IN_S + 1)
    assert come_back(other, state=state, code="a-code").status_code == 403
    assert "took too long" in why(store)


def test_two_pages_may_be_on_their_way(provider: Provider, store: Store, people: Path) -> None:
    web = client_of(provider, store, people)
    first = leave(web, provider, "/")
    leave(web, provider, "/label")
    provider.asked = first
    assert come_back(web, state=first["state"], code="a-code").headers["location"] == "/"


def test_a_session_ends_with_its_time_and_none_is_made_of_another_kind(
    provider: Provider, store: Store, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = client_of(provider, store, people, role_claim="groups")
    provider.claims = {"groups": ["viewer"], "email": "bob@example.org"}
    sign_in(web, provider)
    began = time.time()
    session = web.cookies["leadline-ui"].strip('"')
    assert session.split("|")[2] == "VIEWER"
    forged = session.replace("VIEWER", "EDITOR")
    fresh = client_of(provider, store, people, role_claim="groups")
    assert fresh.get("/", headers={"Cookie": f"leadline-ui={forged}"}).status_code == 303
    by_password = TestClient(AccessControl(echo(), UserKeeper(people, KEY)), follow_redirects=False)
    assert by_password.get("/", headers={"Cookie": f"leadline-ui={session}"}).status_code == 401
    monkeypatch.setattr("leadline.plugins.ui.users.time.time", lambda: began + oidc.SESSION_S + 1)
    assert web.get("/").status_code == 303


def test_a_provider_that_answers_nonsense_lets_nobody_in(provider: Provider, store: Store, people: Path) -> None:
    web = client_of(provider, store, people)
    for about in ({"issuer": "https://elsewhere.example"}, {"jwks_uri": "http://elsewhere.example/keys"}):
        provider.about = about
        assert web.get("/").status_code == 502
    provider.about = {}
    provider.issuer = "http://127.0.0.1:9"
    assert client_of(provider, store, people).get("/").status_code == 502


def test_secrets_stand_in_no_log_and_no_repr(provider: Provider, store: Store, people: Path) -> None:
    web = client_of(provider, store, people)
    provider.key = OTHER
    sign_in(web, provider)
    assert SECRET not in repr(OidcClient(provider.issuer, "leadline", SECRET))
    assert "a-code" not in why(store)


def test_who_is_refused_too_often_waits(provider: Provider, store: Store, people: Path) -> None:
    web = client_of(provider, store, people)
    for _ in range(TRIES):
        assert come_back(web, state="x", code="y").status_code == 403
    assert web.get("/").status_code == 429


def test_a_provider_without_encryption_is_refused_but_on_this_host() -> None:
    with pytest.raises(UsageError, match="https"):
        OidcClient("http://idp.example", "leadline")
    assert OidcClient("http://127.0.0.1:1", "leadline").issuer


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--oidc-issuer", "https://idp.example"], "--oidc-client"),
        (["--oidc-issuer", "https://idp.example", "--oidc-client", "x"], "--oidc-role-claim"),
        (["--oidc-issuer", "http://idp.example", "--oidc-client", "x", "--oidc-role-claim", "r"], "https://"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_served(
    store: Store, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ui", "--store", str(store.root), *options]) == 2
    assert said in capsys.readouterr().err
