"""A judge that changes is found, over real HTTP; one that does not is not accused; nothing is paid for twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from leadline.evaluators.ground import StoreError, UsageError
from leadline.evaluators.judge.prompting import prompt_from
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.settings import JuryConfig, Settings
from leadline.tasks.judges.drift import enrolment as enrolments
from leadline.tasks.judges.drift.drift_check import check_judge, details_of
from leadline.tasks.judges.drift.enrolment import Enrolment, NotChecked, accept, enrol, find_enrolment
from leadline.tasks.judges.drift.epochs import epoch_of, judge_key, with_epochs
from leadline.tasks.judges.drift.judge_standing import quarantined_judges, standing_of, watch
from leadline.tasks.judges.drift.probes import probes_of_file
from leadline.tasks.statistics.judge_stability import SUSPICIOUS
from leadline.tasks.store.store import JUDGES, Store
from tests.support.judges.changing_judge import ChangingJudge
from tests.support.judges.judge_endpoint import Question, broken, serving
from tests.support.judges.judged_run import STATEMENTS, Brief, judge_at, register, write_rows

PROBES = 40
MONDAY = datetime(2026, 11, 16, 3, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    register()
    return Store.open(tmp_path / "store")


def enrolled(store: Store, endpoint: ChangingJudge, folder: Path) -> Enrolment:
    judge = judge_at(endpoint.url)
    settings = Settings(judges=(judge,))
    rows = write_rows(folder / "rows.jsonl", 60)
    metrics, probes = probes_of_file(store, str(rows), judge, settings, PROBES, ["test.brief"])
    return enrol(store, judge, settings, metrics, probes)


def test_a_judge_that_stays_is_steady_and_asked_once_a_day(store: Store, tmp_path: Path) -> None:
    with serving(ChangingJudge()) as endpoint:
        endpoint.noise = 0.2
        enrolment = enrolled(store, endpoint, tmp_path)
        assert len(enrolment.probes) == PROBES
        assert {len(line) for line in enrolment.replies.values} == {4}
        judge = judge_at(endpoint.url)
        kept = find_enrolment(store, judge_key(judge), 0)
        assert kept == enrolment, "it is read as it was written"
        asked = len(endpoint.log)
        for day in range(5):
            check = check_judge(store, judge, Settings(), now=MONDAY + timedelta(days=day))
            assert check.state == "steady"
        assert check.fingerprint == "fp_a1"
        spent = len(endpoint.log) - asked
        assert spent <= 5 * 2 * PROBES, "two calls a probe"
        assert check_judge(store, judge, Settings(), now=MONDAY + timedelta(days=4)) == check
        assert len(endpoint.log) - asked == spent, "asked twice on a day, it is paid for once"


def test_a_judge_that_changes_at_night_is_found_and_accepted_in_a_new_epoch(store: Store, tmp_path: Path) -> None:
    with serving(ChangingJudge()) as endpoint:
        enrolled(store, endpoint, tmp_path)
        judge = judge_at(endpoint.url)
        key = judge_key(judge)
        assert check_judge(store, judge, Settings(), now=MONDAY).state == "steady"
        endpoint.changed, endpoint.fingerprint = 0.5, "fp_c7"
        found = check_judge(store, judge, Settings(), now=MONDAY + timedelta(days=1))
        assert (found.state, found.level) == ("changed", 0.001)
        assert found.p <= 0.001
        assert found.differing > 10
        assert found.expected == 0, "it never disagreed with itself"
        asked = len(endpoint.log)
        assert check_judge(store, judge, Settings(), now=MONDAY + timedelta(days=2)) == found
        assert len(endpoint.log) == asked, "what has changed is not asked again"
        standing = standing_of(store, key)
        assert standing is not None
        assert "CHANGED since 2026-11-17" in standing.in_words()
        assert [sign.text for sign in standing.signs] == ["the provider's fingerprint went from fp_a1 to fp_c7"]

        accepted = accept(store, judge, Settings())
        assert accepted.replies.fingerprints == ("fp_c7",), "those of before are another epoch's"
        assert epoch_of(store, key) == 1
        [in_epoch] = with_epochs(store, Settings(judges=(judge,))).judges
        assert in_epoch.epoch == 1
        assert judge_key(in_epoch) == key
        standing = standing_of(store, key)
        assert standing is not None
        assert (standing.state, standing.check) == ("accepted", None)
        assert check_judge(store, judge, Settings(), now=MONDAY + timedelta(days=2)).state == "steady"


def test_a_change_that_no_check_shows_alone_is_found_by_checks_taken_together(store: Store, tmp_path: Path) -> None:
    with serving(ChangingJudge()) as endpoint:
        enrolled(store, endpoint, tmp_path)
        endpoint.changed = 0.1
        judge = judge_at(endpoint.url)
        alone, together = (check_judge(store, judge, Settings(), now=MONDAY + timedelta(days=day)) for day in range(2))
    assert (alone.state, together.state) == ("steady", "changed")
    assert together.differing == alone.differing, "it is not that it changed further"
    assert alone.p > SUSPICIOUS >= details_of(store, together)["pooled_p"]


def test_a_judge_that_is_down_is_not_checked_and_not_accused(store: Store, tmp_path: Path) -> None:
    with serving(ChangingJudge()) as endpoint:
        enrolled(store, endpoint, tmp_path)
        judge = judge_at(endpoint.url, deadline_s=0.5, down_after_s=0.2)
        endpoint.fault = lambda question: broken(503)
        with pytest.raises(NotChecked, match="was not checked"):
            check_judge(store, judge, Settings(), now=MONDAY)
        standing = standing_of(store, judge_key(judge))
        assert standing is not None
        assert standing.state == "enrolled"
        endpoint.fault = lambda question: None


def test_a_judge_is_not_accused_of_a_change_of_the_prompt(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(ChangingJudge()) as endpoint:
        enrolled(store, endpoint, tmp_path)
        judge, asked = judge_at(endpoint.url), len(endpoint.log)
        strict = prompt_from("length", "Is the answer very brief? {{ claims | data('claims') }} Say yes or no.")
        monkeypatch.setattr(Brief, "all_prompts", lambda self: {"statements": STATEMENTS, "length": strict})
        with pytest.raises(NotChecked, match=r"parameters of test.brief have changed. Enrol it anew: leadline judges"):
            check_judge(store, judge, Settings(), now=MONDAY)
        assert len(endpoint.log) == asked, "nothing is paid for that"


def test_a_damaged_enrolment_is_one_error_that_says_what_to_do(store: Store, tmp_path: Path) -> None:
    with serving(ChangingJudge()) as endpoint:
        enrolled(store, endpoint, tmp_path)
        key = judge_key(judge_at(endpoint.url))
        (file,) = store.root.rglob("enrolments/*.json")
        record = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps({name: record[name] for name in record if name != "configs"}), encoding="utf-8")
        with pytest.raises(StoreError, match=r"0000-0001 of a judge cannot be read: .* Enrol the judge anew"):
            find_enrolment(store, key, 0)


def test_probes_of_an_evaluator_that_is_not_known_here_are_not_checked(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(ChangingJudge()) as endpoint:
        enrolled(store, endpoint, tmp_path)
        monkeypatch.setattr(enrolments, "find", lambda _: None)
        with pytest.raises(NotChecked, match=r"not known here. Say where yours are: --evaluators-dir DIR"):
            check_judge(store, judge_at(endpoint.url), Settings(), now=MONDAY)


def test_replies_that_turn_unreadable_count_as_fails(store: Store, tmp_path: Path) -> None:
    with serving(ChangingJudge()) as endpoint:
        enrolled(store, endpoint, tmp_path)
        judge, said = judge_at(endpoint.url), endpoint.reply
        endpoint.reply = lambda question: said(question) if question.text.startswith("List") else "perhaps"
        assert check_judge(store, judge, Settings(), now=MONDAY).state == "changed"


def test_longer_replies_with_the_same_verdicts_are_a_low_sign(store: Store, tmp_path: Path) -> None:
    with serving(ChangingJudge()) as endpoint:
        enrolled(store, endpoint, tmp_path)
        judge, said = judge_at(endpoint.url), endpoint.reply

        def wordy(question: Question) -> str:
            text = said(question)
            return json.dumps(json.loads(text), indent=4) if question.text.startswith("List") else text

        endpoint.reply = wordy
        assert check_judge(store, judge, Settings(), now=MONDAY).state == "steady"
        standing = standing_of(store, judge_key(judge))
    assert standing is not None
    assert [(sign.severity, sign.text) for sign in standing.signs] == [
        ("low", "its replies have another length, and the same verdicts")
    ]


def test_a_judge_that_is_not_enrolled_is_neither_checked_nor_accepted(store: Store) -> None:
    judge = judge_at("http://127.0.0.1:9/v1")
    for ask in (check_judge, accept):
        with pytest.raises(UsageError, match="is not enrolled"):
            ask(store, judge, Settings())


def test_a_local_judge_needs_no_sentinel(store: Store) -> None:
    judge = judge_at("http://127.0.0.1:9/v1", kind="local", api_base=None, model="m")
    with pytest.raises(UsageError, match="runs on this machine"):
        enrol(store, judge, Settings(), [], [])


def test_the_judges_of_a_jury_are_enrolled_one_by_one(store: Store) -> None:
    members = tuple(judge_at("http://127.0.0.1:9/v1", key=name, model=f"openai/{name}") for name in ("a", "b"))
    jury = JuryConfig(key="panel", model="jury", members=members)
    with pytest.raises(UsageError, match=r"is a jury: each of its judges is enrolled by itself. Its judges: a, b"):
        enrol(store, jury, Settings(), [], [])


def test_a_check_at_the_end_of_a_run_forgets_neither_that_its_rows_were_stopped_nor_that_the_change_is_new(
    store: Store, tmp_path: Path
) -> None:
    with serving(ChangingJudge()) as endpoint:
        enrolled(store, endpoint, tmp_path)
        judge = judge_at(endpoint.url).model_copy(update={"sentinel_every_h": 0})
        endpoint.changed = 0.5
        run, settings = store.new_run(), Settings(judges=(judge,))
        run.update({"status": "running"})
        for part in ("", f"end of {run.id}"):
            watch(store, run, settings, [judge.key], stop=True, limits=Limits(), part=part)
            told = run.read()[JUDGES][judge.key]
            assert (told["state"], told["stopped"], told["newly_changed"]) == ("changed", True, True)
        assert judge.key in quarantined_judges(run)
