"""People's labels beside a run's scores: corrected values, and certificates that stay with a configuration."""

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from leadline.evaluators.ground import StoreError
from leadline.tasks import pipeline
from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.analyse.findings.problems import find_problems
from leadline.tasks.analyse.gate import Decision, decide
from leadline.tasks.db import open_run
from leadline.tasks.judges.labels.drawing import draw
from leadline.tasks.judges.labels.judged_rows import read_judged_rows
from leadline.tasks.judges.labels.label_sets import LabelSet, make_sample
from leadline.tasks.load.label import LABELS_FILE, Label
from leadline.tasks.policy.policy import Role, Rule, load_policy
from leadline.tasks.runs.query import archive
from leadline.tasks.runs.show import overview
from leadline.tasks.store.store import Run, Store
from tests.support.stores.run_factory import Given, Toy, answer, make_run, table

CASES = 400


def _is_good(case: str) -> bool:
    return int(case.rpartition("-")[2]) % 4 != 0


def _run(folder: Path, *, right: float = 0.9, config: str = "one", answers: str = "", rule: Rule | None = None):
    """Make a run of 400 answers, of which 75 % are good and the judge is right of a share."""
    luck = random.Random(5)
    rows = [answer(f"case-{n}", "bot", answer=f"{n} m{answers}") for n in range(CASES)]
    scores = [Given(f"case-{n}", "bot", float(_is_good(f"case-{n}") == (luck.random() < right))) for n in range(CASES)]
    toy = Toy(judged=True, rule=rule or Rule())
    store, run = make_run(folder, rows=rows, evaluators=[toy], scores=scores)
    run.update({"status": "completed"})
    with open_run(store, run) as connection:
        connection.execute("UPDATE evaluators SET config = ?", [config])
    return store, run


def _label(store: Store, run: Run, number: int = 120, people: int = 1, *, drawn: bool = True) -> None:
    judged = read_judged_rows(store, run, "toy")
    rows = draw(judged, number)
    labels = LabelSet(store, "people")
    sample = make_sample(run, judged, rows, how="uniform", seed=1)
    if drawn:
        labels.keep_sample(sample)
    labels.add(
        [
            Label(row.key, "toy.value", float(_is_good(row.case)), f"p{who}", f"2026-01-0{who + 1}", sample=sample.id)
            for row in sample.rows
            for who in range(people)
        ]
    )


def _corrected(folder: Path) -> tuple[Store, Run]:
    """Make a run, label it, and correct its scores."""
    store, run = _run(folder)
    _label(store, run)
    pipeline.correct_scores(store, run)
    return store, run


def _tables(store: Store, run: Run) -> tuple[list[dict], list[dict]]:
    with open_run(store, run, read_only=True) as connection:
        return table(connection, "corrections"), table(connection, "certificates")


def _correct(store: Store, run: Run, *named: str) -> tuple[list[dict], list[dict]]:
    """Correct a run's scores, by the sets that are named; returns what its tables have then."""
    pipeline.correct_scores(store, run, *named)
    return _tables(store, run)


def test_a_run_has_its_judge_corrected_and_certified_where_people_labelled_its_rows(tmp_path: Path) -> None:
    store, run = _run(tmp_path)
    assert pipeline.correct_scores(store, run) == 0
    assert _tables(store, run) == ([], [])
    _label(store, run, people=2)
    assert pipeline.correct_scores(store, run) == 1
    [correction], [certificate] = _tables(store, run)
    assert correction["method"] == "post-stratified"
    assert correction["ci_low"] <= 0.75 <= correction["ci_high"]
    assert correction["bias"] == pytest.approx(correction["judge"] - correction["value"])
    assert (correction["label_set"], correction["n_people"]) == ("people", 2)
    assert (certificate["state"], certificate["n_people"], certificate["to_judge"]) == ("valid", 2, 0)
    assert (certificate["labelled_from"], certificate["labelled_to"]) == ("2026-01-01", "2026-01-02")
    assert certificate["kappa_low"] > 0.4
    assert certificate["people_alpha"] == 1.0


def test_what_show_and_sql_say_is_what_the_tables_have(tmp_path: Path) -> None:
    store, run = _corrected(tmp_path)
    [correction], [certificate] = _tables(store, run)
    shown = overview(store, run)
    assert shown["corrections"][0]["value"] == correction["value"]
    assert shown["certificates"][0]["kappa"] == certificate["kappa"]
    with archive(store) as opened, opened.query("SELECT model_key, value FROM corrections") as found:
        assert found.fetchall() == [("bot", correction["value"])]
    with archive(store) as opened, opened.query("SELECT metric, state FROM certificates") as found:
        assert found.fetchall() == [("value", "valid")]


def test_a_set_that_is_named_has_no_certificate_that_other_sets_helped_to_earn(tmp_path: Path) -> None:
    store, run = _run(tmp_path)
    _label(store, run)
    [sample] = LabelSet(store, "people").samples()
    LabelSet(store, "few").add([Label(row.key, "toy.value", 1.0, "zoe", "2026-01-09") for row in sample.rows[:9]])
    [certificate] = _correct(store, run)[1]
    assert (certificate["label_set"], certificate["state"]) == ("few, people", "valid")
    [certificate] = _correct(store, run, "few")[1]
    assert (certificate["label_set"], certificate["state"], certificate["n_labels"]) == ("few", "few", 9)


def test_a_changed_prompt_is_certified_anew_where_its_run_has_the_labelled_rows(tmp_path: Path) -> None:
    store, _ = _corrected(tmp_path)
    _, again = _run(tmp_path, config="two", right=0.92)
    [correction], [certificate] = _correct(store, again)
    assert (certificate["state"], certificate["earned_config"], certificate["borrowed"]) == ("valid", "two", False)
    assert correction["method"] == "post-stratified"
    assert len(list((store.root / "labels/people/certificates").glob("*.json"))) == 2


def test_other_answers_of_the_same_judge_borrow_its_certificate_and_its_error_rates(tmp_path: Path) -> None:
    store, run = _corrected(tmp_path)
    _, later = _run(tmp_path, answers=" deep")
    [correction], [certificate] = _correct(store, later)
    assert (certificate["state"], certificate["borrowed"]) == ("valid", True)
    assert correction["method"] == "rogan-gladen"
    assert correction["ci_low"] <= 0.75 <= correction["ci_high"]
    [own], _ = _tables(store, run)
    assert correction["ci_high"] - correction["ci_low"] > own["ci_high"] - own["ci_low"]


def test_a_run_whose_judge_was_put_no_row_shows_the_certificate_of_earlier_and_corrects_nothing(tmp_path: Path) -> None:
    store, _ = _corrected(tmp_path)
    _, later = _run(tmp_path, config="two")
    with open_run(store, later) as connection:
        connection.execute("UPDATE scores SET status = 'unscored', reason = 'quarantined', value = NULL")
    assert pipeline.correct_scores(store, later) == 0
    [certificate] = _tables(store, later)[1]
    assert (certificate["state"], certificate["earned_config"]) == ("stale", "one")


def test_other_answers_of_another_judge_have_a_stale_certificate_and_no_correction(tmp_path: Path) -> None:
    store, _ = _corrected(tmp_path)
    _, later = _run(tmp_path, answers=" deep", config="two")
    corrections, [certificate] = _correct(store, later)
    assert corrections == []
    assert (certificate["state"], certificate["earned_config"]) == ("stale", "one")
    assert certificate["to_judge"] == certificate["n_labels"]


def test_labels_drawn_by_another_judge_are_stale_before_any_certificate_is_earned(tmp_path: Path) -> None:
    store, run = _run(tmp_path)
    _label(store, run)
    _, later = _run(tmp_path, answers=" deep", config="two")
    _, [certificate] = _correct(store, later)
    assert (certificate["state"], certificate["earned"]) == ("stale", None)


def test_another_threshold_makes_other_passes_and_needs_its_own_certificate(tmp_path: Path) -> None:
    store, _ = _corrected(tmp_path)
    _, later = _run(tmp_path, answers=" deep")
    with open_run(store, later) as connection:
        connection.execute("UPDATE metrics SET threshold = 0.25")
    assert _correct(store, later)[1][0]["state"] == "stale"


@pytest.mark.parametrize(("number", "drawn", "state"), [(20, True, "few"), (120, False, "not drawn")])
def test_too_few_labels_and_chosen_rows_certify_nothing(tmp_path: Path, number: int, drawn: bool, state: str) -> None:
    store, run = _run(tmp_path)
    _label(store, run, number, drawn=drawn)
    corrections, [certificate] = _correct(store, run)
    assert certificate["state"] == state
    assert not (store.root / "labels/people/certificates").exists()
    assert corrections[0]["value"] is None if state == "not drawn" else corrections[0]["value"] is not None


def test_a_judge_that_guesses_fails(tmp_path: Path) -> None:
    store, run = _run(tmp_path, right=0.5)
    _label(store, run)
    assert _correct(store, run)[1][0]["state"] == "failed"


def test_only_the_named_set_counts(tmp_path: Path) -> None:
    store, run = _run(tmp_path)
    _label(store, run)
    LabelSet(store, "empty").add([Label("0" * 32, "toy.value", 1.0, "ann", "2026-01-01")])
    assert _correct(store, run, "empty")[1][0]["state"] == "none"
    assert _correct(store, run)[1][0]["label_set"] == "empty, people"


def test_a_damaged_certificate_is_named(tmp_path: Path) -> None:
    store, run = _corrected(tmp_path)
    [path] = (store.root / "labels/people/certificates").glob("*.json")
    path.write_text("{")
    with pytest.raises(StoreError, match=path.name):
        pipeline.correct_scores(store, run)


def _decided(store: Store, run: Run, *, gate_on: str = "corrected") -> Decision:
    policy = load_policy("default")
    pipeline.correct_scores(store, run, gate_on=gate_on)
    with open_run(store, run) as connection:
        aggregate(connection)
        find_problems(connection, policy)
        return decide(connection, policy, chosen=True)


def test_a_gate_on_corrected_values_passes_what_people_find_good_and_the_judge_does_not(tmp_path: Path) -> None:
    store, run = _run(tmp_path, right=0.85, rule=Rule(min_pass_share=0.55))
    _label(store, run)
    assert _decided(store, run, gate_on="judge").gate == "fail"
    assert _decided(store, run).gate == "pass"


def test_a_gate_on_corrected_values_fails_what_is_surely_below_the_limit(tmp_path: Path) -> None:
    store, run = _run(tmp_path, right=0.95, rule=Rule(min_pass_share=0.95))
    _label(store, run, 200)
    decision = _decided(store, run)
    assert decision.gate == "fail"
    assert "of the answers are good (Toy, corrected; 95 % interval" in decision.reason


@pytest.mark.parametrize(
    ("labelled", "config", "wanted", "words"),
    [
        (0, "one", 0.5, "there are none: leadline labels sample latest --metric toy.value --n 100"),
        (30, "one", 0.5, "too few to certify its judge, about 20 labels more, some 5 minutes of a person are wanted"),
        (120, "two", 0.5, "earned with another prompt or judge: leadline judges certify latest --metric toy.value (1"),
        (120, "one other answers", 0.5, "of model bot: leadline labels sample latest --metric toy.value --model bot"),
        (120, "one", 0.74, "which these labels cannot decide: more labels than this run has rows (400) would"),
    ],
)
def test_a_gate_on_corrected_values_is_open_without_certificate_and_says_what_to_do(
    tmp_path: Path, labelled: int, config: str, wanted: float, words: str
) -> None:
    store, run = _run(tmp_path, right=0.9, rule=Rule(min_pass_share=wanted))
    if labelled:
        _label(store, run, labelled)
        pipeline.correct_scores(store, run)
    if config != "one":
        _, run = _run(tmp_path, answers=" deep", config=config.split()[0], rule=Rule(min_pass_share=wanted))
    decision = _decided(store, run)
    assert (decision.gate, words in decision.reason) == ("inconclusive", True), decision.reason


def test_a_policy_may_ask_for_corrected_values_of_one_metric(tmp_path: Path) -> None:
    store, run = _run(tmp_path, rule=Rule(use="corrected"))
    assert _decided(store, run, gate_on="policy").gate == "inconclusive"
    assert "decided by people's labels" in _decided(store, run, gate_on="policy").reason


def test_what_only_informs_needs_no_labels(tmp_path: Path) -> None:
    store, run = _run(tmp_path, rule=Rule(role=Role.INFORMATION))
    assert "labels" not in _decided(store, run).reason


def _with_labels(folder: Path, *, of: int = CASES, name: str = "toy", right: float = 0.9) -> tuple[Store, Run]:
    """Make a run whose dataset has labels of some of its rows."""
    store, run = _run(folder, right=right)
    dataset = store.dataset(run.read()["dataset"])
    lines = [
        {"row_id": row, "question": name, "value": float(_is_good(f"case-{row}")), "person": "anna", "note": ""}
        for row in range(of)
    ]
    parquet.write_table(pa.Table.from_pylist(lines), dataset / LABELS_FILE)
    return store, run


@pytest.mark.parametrize("name", ["toy", "toy.value"])
def test_labels_of_all_rows_that_came_with_the_dataset_correct_and_certify_its_judge(tmp_path: Path, name: str) -> None:
    store, run = _with_labels(tmp_path, name=name)
    assert pipeline.correct_scores(store, run) == 1
    [correction], [certificate] = _tables(store, run)
    assert correction["value"] == pytest.approx(0.75)
    assert correction["value"] == pytest.approx(correction["labels_value"])
    assert (correction["n_labels"], correction["n_people"], correction["label_set"]) == (CASES, 1, "dataset")
    assert (certificate["state"], certificate["borrowed"]) == ("valid", False)
    assert (certificate["labelled_from"], certificate["labelled_to"]) == (None, None)
    assert not (store.root / "labels").exists()


def test_labels_of_some_rows_that_came_with_the_dataset_compare_and_do_not_correct(tmp_path: Path) -> None:
    store, run = _with_labels(tmp_path, of=CASES - 1)
    assert pipeline.correct_scores(store, run) == 1
    [correction], [certificate] = _tables(store, run)
    assert (correction["value"], correction["n_labels"]) == (None, CASES - 1)
    assert certificate["state"] == "not drawn"
    assert certificate["kappa"] > 0.6


def test_labels_of_the_dataset_and_of_sets_count_together_unless_one_set_is_named(tmp_path: Path) -> None:
    store, run = _with_labels(tmp_path, of=10)
    _label(store, run)
    [correction], [certificate] = _correct(store, run)
    assert (correction["label_set"], certificate["state"]) == ("people, dataset", "valid")
    assert certificate["n_people"] > 1
    [correction], [certificate] = _correct(store, run, "people")
    assert (correction["label_set"], correction["n_people"]) == ("people", 1)


def test_labels_of_no_metric_of_the_run_leave_it_as_it_is(tmp_path: Path) -> None:
    store, run = _with_labels(tmp_path, name="toys")
    assert pipeline.correct_scores(store, run) == 0
    assert _tables(store, run) == ([], [])
