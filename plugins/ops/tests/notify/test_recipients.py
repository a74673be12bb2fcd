"""``[[notify]]`` of ``leadline.toml``: what may stand there, and that no address does."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.evaluators.ground import UsageError
from leadline.plugins.ops.notify.recipients import EVERYTHING, Kind, Recipient, find_recipients, service_of

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
