"""The outbox: each notice goes out once, also across restarts, and waits while a service does not take it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from leadline.plugins.ops.notify import outbox as outbox_module
from leadline.plugins.ops.notify.outbox import SINGLY, Outbox
from leadline.plugins.ops.notify.recipients import Kind, Notice, Recipient, plain

TEAM, NIGHT = Recipient("team", "json://a"), Recipient("night", "json://b")


def notice(number: int = 1) -> Notice:
    return Notice(f"end {number}", Kind.FAIL, f"run {number}", ("1 problem of high severity.",), "http://page/runs/1")


class ScriptedService:
    """Takes notices, or refuses them."""

    def __init__(self, refusal: str = "") -> None:
        self.taken: list[tuple[str, str]] = []
        self.refusal = refusal
        self.asked = 0

    def __call__(self, recipient: Recipient, notice: Notice) -> str:
        self.asked += 1
        if not self.refusal:
            self.taken.append((recipient.name, notice.title))
        return self.refusal


def test_a_notice_is_sent_once_to_each_also_by_the_next_process(tmp_path: Path) -> None:
    service = ScriptedService()
    for _ in range(3):
        outbox = Outbox(tmp_path)
        for recipient in (TEAM, NIGHT):
            outbox.put(recipient, notice())
        outbox.deliver([TEAM, NIGHT], service)
    title = "run 1 fails its gate"
    assert service.taken == [("team", title), ("night", title)]


def test_what_is_refused_waits_longer_and_longer_and_is_not_lost_by_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = [time.time()]
    monkeypatch.setattr(time, "time", lambda: moment[0])
    away, service = ScriptedService("Connection refused."), ScriptedService()
    Outbox(tmp_path).put(TEAM, notice())
    for _ in range(100):
        assert Outbox(tmp_path).deliver([TEAM], away) == 0
        moment[0] += 10
    assert away.asked == 7, "after 0, 10, 30, 70, 150, 310 and 630 seconds"
    assert len(Outbox(tmp_path)) == 1
    moment[0] += 600
    assert Outbox(tmp_path).deliver([TEAM], service) == 1
    assert Outbox(tmp_path).deliver([TEAM], service) == 0
    assert service.taken == [("team", "run 1 fails its gate")]


def test_after_days_of_refusal_a_notice_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = [time.time()]
    monkeypatch.setattr(time, "time", lambda: moment[0])
    Outbox(tmp_path).put(TEAM, notice())
    moment[0] += outbox_module.GIVE_UP_S + 1
    Outbox(tmp_path).deliver([TEAM], ScriptedService("Gone."))
    assert len(Outbox(tmp_path)) == 0
    assert not Outbox(tmp_path).put(TEAM, notice())


def test_a_bad_night_is_one_message(tmp_path: Path) -> None:
    outbox, service = Outbox(tmp_path), ScriptedService()
    for number in range(SINGLY + 27):
        outbox.put(TEAM, notice(number))
    assert outbox.deliver([TEAM], service) == SINGLY + 27
    assert [title for _, title in service.taken] == ["30 runs need a look: run 0 fails its gate, and others"]
    assert len(outbox) == 0


def test_a_recipient_that_does_not_answer_holds_up_no_other(tmp_path: Path) -> None:
    outbox, told = Outbox(tmp_path), []

    def send(recipient: Recipient, notice: Notice) -> str:
        told.append(recipient.name)
        return "No answer." if recipient is TEAM else ""

    for number in (1, 2):
        for recipient in (TEAM, NIGHT):
            outbox.put(recipient, notice(number))
    assert outbox.deliver([TEAM, NIGHT], send) == 2
    assert told == ["team", "night", "night"], "the first refusal ends a recipient's turn"


def test_broken_files_and_recipients_that_are_gone_are_set_aside(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path)
    outbox.put(NIGHT, notice())
    (tmp_path / "broken.json").write_text("{")
    assert outbox.deliver([TEAM], ScriptedService()) == 0
    assert {path.suffix for path in tmp_path.iterdir()} == {".failed"}


def test_what_was_sent_is_forgotten_in_the_end_and_the_outbox_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = Outbox(tmp_path)
    outbox.skip(TEAM, notice())
    [marker] = tmp_path.iterdir()
    long_ago = time.time() - outbox_module.REMEMBERED_S - 1
    os.utime(marker, (long_ago, long_ago))
    outbox.deliver([TEAM], ScriptedService())
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(outbox_module, "MOST", 2)
    assert [outbox.put(TEAM, notice(number)) for number in range(4)] == [True, True, False, False]


def test_texts_of_a_run_act_on_nothing(tmp_path: Path) -> None:
    hostile = Notice("k", Kind.FAIL, "x\nSubject: y\x1b[31m", ("@everyone <!channel>\r\n.\r\n", "a" * 5000), "http://h")
    assert "\n" not in hostile.title
    assert "\x1b" not in hostile.title
    assert "@everyone" not in hostile.body
    assert len(hostile.body.splitlines()) == 3
    assert max(map(len, hostile.body.splitlines())) <= 600
    assert plain("mail ada@example.org") == "mail ada@example.org"
