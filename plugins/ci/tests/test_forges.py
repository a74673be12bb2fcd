"""One comment on a pull request against a scripted forge: found again, and every refusal is a warning."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from leadline.plugins.ci import forges
from leadline.plugins.ci.checkout import Checkout
from leadline.plugins.ci.forges import Posting, keep_comment, marker
from tests.support.forges.scripted_forge import TOKEN, Refusal, ScriptedForge, scripted_forge

PULLS = {
    "github": Checkout("github", "harbour/bot", "fix", number=7, base_branch="main"),
    "gitlab": Checkout("gitlab", "42", "fix", number=7, base_branch="main"),
}
FORK = Checkout("github", "harbour/bot", "fix", number=7, base_branch="main", fork=True)


@pytest.fixture
def forge() -> Iterator[ScriptedForge]:
    with scripted_forge() as forge:
        yield forge


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, which take no time."""
    waited: list[float] = []
    plain = forges.RestClient.__init__

    def patient(self: forges.RestClient, *args: object, **options: object) -> None:
        plain(self, *args, sleep=waited.append, clock=lambda: 1000.0, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(forges.RestClient, "__init__", patient)
    return waited


def keep(
    forge: ScriptedForge,
    body: str = "All well.",
    *,
    checkout: Checkout = PULLS["github"],
    token: str = TOKEN,
    title: str = "Leadline",
) -> Posting:
    environment = {"LEADLINE_FORGE_API": forge.url, "LEADLINE_FORGE_TOKEN": token}
    return keep_comment(checkout, body, title=title, environment=environment)


@pytest.mark.parametrize("name", PULLS)
def test_there_is_one_comment_and_it_is_brought_up_to_date(forge: ScriptedForge, name: str) -> None:
    forge.login = "harbour-bot"
    assert keep(forge, "one", checkout=PULLS[name]).done == "created"
    assert keep(forge, "two", checkout=PULLS[name]).done == "updated"
    assert keep(forge, "two", checkout=PULLS[name]).done == "unchanged"
    assert forge.own() == [f"{marker('Leadline')}\ntwo"]


def test_checks_with_different_titles_have_a_comment_each(forge: ScriptedForge) -> None:
    keep(forge, "one", title="Chat")
    keep(forge, "two", title="Search")
    assert [text.splitlines()[-1] for text in forge.own()] == ["one", "two"]


def test_a_marker_that_somebody_else_wrote_is_no_comment_of_ours(forge: ScriptedForge) -> None:
    forge.comments = {1: ("mallory", f"{marker('Leadline')}\nall is well"), 2: ("mallory", "hello")}
    assert keep(forge).done == "created"
    assert forge.comments[1] == ("mallory", f"{marker('Leadline')}\nall is well")


def test_a_workflows_token_may_not_ask_for_its_name(forge: ScriptedForge) -> None:
    forge.login = ""
    assert [keep(forge, text).done for text in ("one", "two")] == ["created", "updated"]


@pytest.mark.parametrize("name", PULLS)
def test_the_comment_is_found_on_a_later_page(forge: ScriptedForge, name: str) -> None:
    forge.per_page = 3
    forge.comments = dict.fromkeys(range(1, 8), ("somebody", "hello"))
    keep(forge, "one", checkout=PULLS[name])
    assert keep(forge, "two", checkout=PULLS[name]).done == "updated"
    assert sum("page=3" in line for line in forge.requests) == 2


def test_pages_of_another_host_are_not_asked_for(forge: ScriptedForge) -> None:
    with scripted_forge() as other:
        forge.elsewhere = other.url
        assert keep(forge).done == "created"
        assert other.requests == []


def test_a_comment_that_was_deleted_meanwhile_is_written_anew(forge: ScriptedForge) -> None:
    keep(forge, "one")
    forge.refusals = [Refusal(404, method="PATCH")]
    assert keep(forge, "two").done == "created"


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (Refusal(403, message="Resource not accessible by integration", method="POST"), "403"),
        (Refusal(422, message="Validation Failed", method="POST"), "422"),
        (Refusal(301, {"Location": "http://127.0.0.1:9/"}, method="POST"), "301"),
        (Refusal(0, method="POST"), "cannot be reached"),
        (Refusal(500, method="POST"), "500"),
    ],
    ids=["403", "422", "moved", "closed", "500"],
)
def test_a_refusal_is_said_and_nothing_is_written_twice(forge: ScriptedForge, refusal: Refusal, words: str) -> None:
    forge.refusals = [refusal]
    posting = keep(forge)
    assert posting.done == "refused"
    assert words in posting.words
    assert posting.words.startswith("The pull request got no comment: ")
    assert sum(line.startswith("POST") for line in forge.requests) == 1


def test_what_can_be_repeated_is(forge: ScriptedForge, pauses: list[float]) -> None:
    busy = Refusal(503, {"Retry-After": "7"}, method="GET")
    forge.refusals = [Refusal(0, method="GET"), Refusal(502, method="GET"), busy]
    assert keep(forge).done == "created"
    assert pauses == [1.0, 2.0, 7.0]


@pytest.mark.parametrize(
    ("refusal", "wait"),
    [
        (Refusal(429, {"Retry-After": "12"}, method="POST"), 12.0),
        (Refusal(403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1030"}, method="POST"), 30.0),
        (Refusal(403, message="You have exceeded a secondary rate limit", method="POST"), 1.0),
        (Refusal(429, {"RateLimit-Remaining": "0", "RateLimit-Reset": "1005"}, method="POST"), 5.0),
    ],
    ids=["retry-after", "reset", "secondary", "gitlab"],
)
def test_a_forge_that_asks_to_wait_is_waited_for(
    forge: ScriptedForge, pauses: list[float], refusal: Refusal, wait: float
) -> None:
    forge.refusals = [refusal]
    assert keep(forge).done == "created"
    assert pauses == [wait]
    assert len(forge.own()) == 1


def test_an_hour_is_not_waited(forge: ScriptedForge, pauses: list[float]) -> None:
    forge.refusals = [Refusal(429, {"Retry-After": "3600"}, method="POST")]
    assert keep(forge) == Posting("refused", "The pull request got no comment: it asks to wait for 3,600 s.")
    assert pauses == []


def test_a_token_from_a_file_may_end_with_a_line_break(forge: ScriptedForge) -> None:
    assert keep(forge, token=f"{TOKEN}\r\n").done == "created"


def test_a_reply_that_is_compressed_unasked_is_not_expanded(forge: ScriptedForge) -> None:
    forge.compresses = True
    posting = keep(forge)
    assert posting.done == "refused"
    assert "no list of comments" in posting.words


def test_a_server_that_is_down_is_said() -> None:
    with scripted_forge() as gone:
        pass
    posting = keep(gone)
    assert posting.done == "refused"
    assert "cannot be reached" in posting.words


def test_a_fork_has_no_token_that_may_write_and_that_is_one_line(forge: ScriptedForge) -> None:
    line = "The pull request comes from a fork, whose jobs get no token that may write: it gets no comment."
    assert keep(forge, checkout=FORK, token="") == Posting("refused", line)
    forge.refusals = [Refusal(403, method="POST")]
    assert keep(forge, checkout=FORK) == Posting("refused", line)
    assert forge.own() == []


def test_without_a_token_or_a_pull_request_nothing_is_asked_of_the_forge(forge: ScriptedForge) -> None:
    assert keep(forge, token="").words == "The pull request got no comment: LEADLINE_FORGE_TOKEN is not set."
    assert keep(forge, checkout=Checkout("github", "harbour/bot", "main")).done == "not asked"
    assert forge.requests == []


@pytest.mark.parametrize(
    "variables",
    [
        {"LEADLINE_FORGE_API": "http://forge.example/api"},
        {"LEADLINE_FORGE_API": "https://me:secret-word@forge.example/api"},
        {"LEADLINE_FORGE_API": "ftp://forge.example"},
        {"LEADLINE_FORGE_TOKEN": "token\nX-Evil: 1"},
    ],
    ids=["plain http", "credentials", "no http", "line end"],
)
def test_a_token_goes_nowhere_that_it_should_not(variables: dict[str, str]) -> None:
    environment = {"LEADLINE_FORGE_API": "https://forge.example", "LEADLINE_FORGE_TOKEN": TOKEN} | variables
    posting = keep_comment(PULLS["github"], "x", title="Leadline", environment=environment)
    assert posting.done == "refused"
    assert not any(secret in posting.words for secret in ("secret-word", TOKEN, "Evil"))


def test_the_token_is_in_no_warning(forge: ScriptedForge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_FORGE_TOKEN", TOKEN)
    forge.refusals = [Refusal(422, message=f"no such token: {TOKEN}", method="POST")]
    assert TOKEN not in keep(forge).words


def test_a_forge_whose_reply_trickles_does_not_hold_the_job(
    forge: ScriptedForge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forges, "REPLY_S", 0.2)
    forge.trickles_s = 30.0
    began = time.monotonic()
    assert keep(forge).done == "refused"
    assert time.monotonic() - began < 10
