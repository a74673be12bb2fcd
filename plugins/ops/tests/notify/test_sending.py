"""Recipients in ``leadline.toml``, and messages to real ones by HTTP and SMTP: what is said where one is not taken."""

from __future__ import annotations

import email
import email.policy
import threading
from pathlib import Path

import pytest

from leadline.cli.main import run
from leadline.evaluators.ground import UsageError
from leadline.plugins.ops.notify import recipients
from leadline.plugins.ops.notify.recipients import (
    EVERYTHING,
    Kind,
    Notice,
    Recipient,
    find_recipients,
    plain,
    send,
    service_of,
)
from leadline.plugins.ops.notify.watching import _web
from tests.support.processes.receivers import http_receiver, smtp_receiver

LINK = "https://leadline.example.org/reports/runs/20260101-a/report.html"
NOTICE = Notice("k", Kind.FAIL, "nightly", ("1 problem of high severity.", "- beta: 1 of 54 leaks <b>"), LINK)


def test_a_webhook_gets_the_verdicts_sentences_and_a_link() -> None:
    with http_receiver() as got:
        assert send(Recipient("team", f"json://127.0.0.1:{got.port}/a-secret-path"), NOTICE) == ""
    [message] = got.messages
    assert message["title"] == "nightly fails its gate"
    assert message["message"].splitlines() == ["1 problem of high severity.", "- beta: 1 of 54 leaks <b>", LINK]


def test_names_from_outside_call_nobody_and_hide_no_address_in_a_chat() -> None:
    named = (
        "<!channel> <!subteam^S1> <@U1> <@&1> <#C1> @here @ada [report](https://evil.example) <https://evil.example|ok>"
    )
    with http_receiver() as got:
        assert send(Recipient("chat", f"mmost://127.0.0.1:{got.port}/abcdefghijklmnopqrstuvwxyz"), _named(named)) == ""
    [message] = got.messages
    for part in ("<!", "<@", "<#", "@here", "@ada", "](", "<https"):
        assert part not in message["text"], part
    assert "a < b, ada@example.org, row[0]" in plain("a < b, ada@example.org, row[0]")


@pytest.mark.parametrize(
    "address", ["https://x.example/<!here>", "https://x.example/a b", "javascript:alert(1)", 5, None]
)
def test_an_events_link_is_an_address_and_nothing_more(address: object) -> None:
    assert _web(address) == ""
    assert _web(LINK) == LINK


def _named(text: str) -> Notice:
    return Notice("k", Kind.FAIL, text, (text,), LINK)


def test_a_mail_has_the_verdict_as_its_subject() -> None:
    with smtp_receiver() as got:
        url = f"mailto://127.0.0.1:{got.port}/ada@example.org?from=leadline@example.org&mode=insecure"
        assert send(Recipient("mail", url), NOTICE) == ""
    [mail] = [email.message_from_string(text, policy=email.policy.default) for text in got.messages]
    assert "nightly fails its gate" in mail["Subject"]
    assert "ada@example.org" in mail["To"]
    text = mail.get_body(("plain", "html"))
    assert text is not None
    assert text.get_content().splitlines()[:3] == ["1 problem of high severity.", "- beta: 1 of 54 leaks <b>", LINK]


def test_a_refusal_is_said_without_any_part_of_the_address() -> None:
    with http_receiver() as got:
        got.status = 403
        refused = send(Recipient("team", f"json://user:pa55word@127.0.0.1:{got.port}/a-secret-path"), NOTICE)
    assert "403" in refused
    for part in ("pa55word", "secret", str(got.port), "user"):
        assert part not in refused
    nobody = send(Recipient("team", f"json://127.0.0.1:{got.port}/a-secret-path"), NOTICE)
    assert nobody
    assert "secret" not in nobody


def test_a_service_that_never_answers_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(recipients, "DEADLINE_S", 0.1)
    monkeypatch.setattr(recipients, "_send", lambda *_: str(ended.wait(20)))
    assert send(Recipient("team", "json://127.0.0.1"), NOTICE).startswith("No answer")
    ended.set()


def test_the_command_tests_every_recipient_and_shows_no_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tables = [f'[[notify]]\nname = "{name}"\nurl_env = "URL_{name}"\n' for name in ("good", "bad")]
    Path("leadline.toml").write_text("".join(tables))
    with http_receiver() as got:
        monkeypatch.setenv("URL_good", f"json://127.0.0.1:{got.port}/a-secret-path")
        monkeypatch.setenv("URL_bad", "json://127.0.0.1:9/another-secret-path")
        assert run(["service", "notify", "test", "good"]) == 0
        assert run(["service", "notify", "test"]) == 3
        assert run(["service", "notify", "test", "none"]) == 2
    assert [message["title"] for message in got.messages] == ["Leadline can reach good"] * 2
    said = "".join(capsys.readouterr())
    assert "secret" not in said
    assert "LL-NOTIFY-01" in said


def test_nobody_to_notify_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["service", "notify", "test"]) == run(["service", "notify", "watch"]) == 2
    assert "[[notify]]" in capsys.readouterr().err


TABLE = '[[notify]]\nname = "team"\nurl_env = "TEAM_URL"\n'


def find(tmp_path: Path, text: str, **environment: str) -> tuple[Recipient, ...]:
    file = tmp_path / "leadline.toml"
    file.write_text(text)
    return find_recipients(file, environment)


def test_a_recipient_is_told_everything_unless_its_table_says_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = TABLE + '[[notify]]\nname = "night"\nurl_env = "NIGHT_URL"\non = ["crashed", "late"]\n'
    found = find(tmp_path, both, TEAM_URL=" json://host/key ", NIGHT_URL="mailto://u:p@host")
    assert [(one.name, one.url, one.kinds) for one in found] == [
        ("team", "json://host/key", set(EVERYTHING)),
        ("night", "mailto://u:p@host", {Kind.CRASHED, Kind.LATE}),
    ]
    assert "key" not in repr(found[0])
    monkeypatch.chdir(tmp_path / "..")
    assert find_recipients() == ()
    assert find(tmp_path, "[evaluate]\n") == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[notify]]\nname = 7\nurl_env = 'X'", "name"),
        ("[[notify]]\nname = 'a'", "url_env"),
        ("[notify]\nname = 'a'", "tables"),
        ("notify = 'x'", "tables"),
        (TABLE + "on = ['faild']", "on"),
        (TABLE + "on = []", "on"),
        (TABLE + "colour = 'red'", "colour"),
        (TABLE + TABLE, "twice"),
        ("[[notify]", "cannot be read"),
        (TABLE, "TEAM_URL is not set"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told) as caught:
        find(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_an_address_in_the_file_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="environment variable") as caught:
        find(tmp_path, TABLE + 'url = "slack://T1/secret-key/B"')
    assert "secret-key" not in str(caught.value)


def test_an_address_that_apprise_does_not_understand_is_not_repeated() -> None:
    with pytest.raises(UsageError, match="team") as caught:
        service_of(Recipient("team", "nothing://secret-key"))
    assert "secret-key" not in str(caught.value)
    urls = {
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general": "Slack",
        "workflows://host:443/WFID/SIGNATURE/": "Power Automate / Workflows (for MSTeams)",
        "mailtos://user:password@example.com": "E-Mail",
        "jsons://host/path": "JSON",
    }
    assert {url: service_of(Recipient("x", url)) for url in urls} == urls
