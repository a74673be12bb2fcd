import json
import random
from dataclasses import replace

import numpy as np
import pytest

from leadline.evaluators.core import Metric
from leadline.evaluators.ground import StoreError, UsageError
from leadline.tasks.judges.labels.drawing import draw
from leadline.tasks.judges.labels.judged_rows import JudgedRows, read_judged_rows
from leadline.tasks.judges.labels.label_files import read_labels, write_labels
from leadline.tasks.judges.labels.label_report import report_labels
from leadline.tasks.judges.labels.label_sets import (
    LabelSample,
    LabelSet,
    SampledRow,
    find_label_set,
    label_sets,
    make_sample,
)
from leadline.tasks.judges.labels.labelled_rows import ties
from leadline.tasks.judges.labels.labelling_tasks import why_more
from leadline.tasks.load.label import Label
from leadline.tasks.store.store import Run, Store
from tests.support.stores.run_factory import Given, Toy, answer, make_run

NUMBER = Metric("points", "Points", higher_is_better=True, range=(0, 5), threshold=None)
TOY = Toy(metrics=(*Toy().metrics, NUMBER))


def _truth(case: int) -> bool:
    return case % 4 != 0


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Run]:
    """A run of 400 cases, 20 of which have a perturbed copy; its judge is right of 85 % of the answers."""
    draw_from = random.Random(3)
    rows, scores = [], []
    for case in range(400):
        names = [(f"case-{case}", {})]
        if case < 20:
            names.append((f"copy-{case}", {"original": f"case-{case}", "perturbation": "typo"}))
        for name, more in names:
            rows.append(answer(name, "bot", **more))
            right = draw_from.random() < 0.85
            scores.append(Given(name, "bot", float(_truth(case) == right)))
            scores.append(Given(name, "bot", 2 + _truth(case) + draw_from.random(), metric="points"))
    return make_run(tmp_path_factory.mktemp("run"), rows=rows, evaluators=[TOY], scores=scores)


@pytest.fixture(scope="module")
def judged(scored: tuple[Store, Run]) -> JudgedRows:
    return read_judged_rows(*scored, "toy")


def _sample(judged: JudgedRows, how="uniform", number=120) -> LabelSample:
    drawn = draw(judged, number, how=how)
    rows = tuple(
        SampledRow(judged.keys[row.index], judged.cases[row.index], "bot", row.stratum, row.chance) for row in drawn
    )
    return LabelSample("s", "run", judged.metric.id, how, 1, judged.metric.config, len(judged.rows), rows)


def _label(row: SampledRow, question: str, person="anna", value=None) -> Label:
    good = float(_truth(int(row.case.split("-")[1])))
    return Label(row.key, question, good if value is None else value, person, "2026-01-01", row.case, "bot", sample="s")


def test_rows_are_drawn_with_all_copies_of_their_case(judged):
    drawn = {judged.cases[row.index] for row in draw(judged, 150)}
    for case in range(20):
        assert (f"case-{case}" in drawn) == (f"copy-{case}" in drawn)


def test_the_same_command_draws_the_same_rows_and_a_larger_sample_holds_the_smaller(judged):
    small = [row.index for row in draw(judged, 100)]
    assert small == [row.index for row in draw(judged, 100)]
    assert set(small) <= {row.index for row in draw(judged, 200)}
    assert small != [row.index for row in draw(judged, 100, seed=2)]


def test_a_uniform_sample_has_some_of_either_verdict_and_no_more_rows_than_asked_for(judged):
    passes = judged.metric.passes(judged.values)
    drawn = draw(judged, 30)
    assert sum(not passes[row.index] for row in drawn) >= 14  # a case's copies are in the stratum of their mean
    assert 28 <= len(drawn) <= 30  # a case whose copies do not fit is left for a larger sample
    assert {row.stratum for row in drawn} == {"bot: passed", "bot: failed"}


@pytest.mark.parametrize(("how", "strata"), [("balanced", 2), ("by-score", 5)])
def test_strata_get_equal_shares(scored, how, strata):
    numbers = read_judged_rows(*scored, "toy.points")
    counts = {}
    for row in draw(numbers, 100, how=how):
        counts[row.stratum] = counts.get(row.stratum, 0) + 1
    if how == "by-score":
        assert len(counts) == strata
        assert max(counts.values()) - min(counts.values()) <= 2
    assert all(0 < row.chance <= 1 for row in draw(numbers, 100, how=how))


@pytest.fixture(scope="module")
def eight(tmp_path_factory) -> tuple[Store, Run]:
    """A run of eight models with 36 rows each: 9 cases, each with three copies."""
    rows, scores = [], []
    for model in range(8):
        for row in range(36):
            case = f"c{row // 4}" + f"-{row % 4}" * (row % 4 > 0)
            more = {"original": f"c{row // 4}", "perturbation": "typo"} if row % 4 else {}
            rows.append(answer(case, f"m{model}", **more))
            scores += [Given(case, f"m{model}", float(row // 4 % 3 != 0)),
                       Given(case, f"m{model}", float(row // 4 % 5), metric="points")]  # fmt: skip
    return make_run(tmp_path_factory.mktemp("eight"), rows=rows, evaluators=[TOY], scores=scores)


@pytest.mark.parametrize("how", ["uniform", "balanced", "by-score"])
@pytest.mark.parametrize("number", [33, 64, 161, 288, 1000])
def test_the_number_asked_for_is_a_cap_whatever_models_strata_and_copies_there_are(eight, how, number):
    judged = read_judged_rows(*eight, "toy.points" if how == "by-score" else "toy")
    if number < {"uniform": 32, "balanced": 64, "by-score": 160}[how]:  # a part of a model's holds no case with copies
        with pytest.raises(UsageError, match=r"No case of 8 models fits into .* rows"):
            draw(judged, number, how=how)
        return
    drawn = [row.index for row in draw(judged, number, how=how)]
    assert len(set(drawn)) == len(drawn) <= number
    assert number < 288 or how != "uniform" or len(drawn) == 288


def test_rows_of_one_model_are_drawn_as_the_sample_of_all_models_draws_them(eight):
    judged = read_judged_rows(*eight, "toy")
    alone = judged.of_model("m3")
    drawn = {alone.keys[row.index] for row in draw(alone, 36 // 2)}
    of_all = {judged.keys[row.index] for row in draw(judged, 8 * 36 // 2) if judged.models[row.index] == "m3"}
    assert drawn == of_all
    assert set(alone.models) == {"m3"}
    assert len(alone.values) == len(alone.rows) == len(alone.clusters) == 36
    with pytest.raises(UsageError, match="no row of the model 'm8'") as refused:
        judged.of_model("m8")
    assert "m0, m1" in refused.value.hint


def test_samples_of_two_models_are_two(eight):
    store, run = eight
    judged = read_judged_rows(store, run, "toy")
    samples = []
    for model in ("m0", "m1"):
        alone = judged.of_model(model)
        samples.append(make_sample(run, alone, draw(alone, 20), how="uniform", seed=1, model=model))
    assert len(samples[0].rows) == len(samples[1].rows)
    assert samples[0].id != samples[1].id


def test_labels_of_one_model_say_nothing_of_the_others(eight):
    store, run = eight
    judged = read_judged_rows(store, run, "toy")
    alone = judged.of_model("m3")
    sample = make_sample(run, alone, draw(alone, 36), how="uniform", seed=1, model="m3")
    labels = [Label(row.key, "toy.value", 1.0, "anna", "2026-01-01", sample=sample.id) for row in sample.rows]
    report = report_labels(judged, labels, [sample])
    assert [(model.model, model.labels) for model in report.models if model.labels] == [("m3", 36), ("", 36)]
    assert report.models[-1].judged == 36
    assert all(model.corrected is None for model in report.models if model.model not in ("m3", ""))
    assert report_labels(judged, [], []).models[-1].judged == 288


@pytest.mark.parametrize(
    ("model", "number", "words"),
    [
        (None, 64, "These are 8 rows of each of 8 models, which tells little of any one: enough of each would be "
                   "--n 288, some 30 minutes of a person; or take one alone: --model m0."),
        (None, 288, ""),
        ("m3", 20, ""),  # 36 rows certify no judge, however many are labelled
    ]
)  # fmt: skip
def test_it_is_said_why_more_would_be_needed(eight, model, number, words):
    judged = read_judged_rows(*eight, "toy")
    judged = judged.of_model(model) if model else judged
    assert why_more(judged, draw(judged, number), number) == words


@pytest.mark.parametrize(("number", "words"), [(48, "--n 50, some 5 minutes"), (50, "--n 5"), (60, "")])
def test_under_fifty_labels_certify_no_judge_and_that_is_said(judged, number, words):
    drawn = draw(judged, number)
    said = why_more(judged, drawn, number)
    assert bool(said) == (len(drawn) < 50)
    if said:
        assert said.startswith("A judge is certified by 50 labels or more")
        assert words in said


def _people(judged: JudgedRows, *said: tuple[str, float | None]) -> list[Label]:
    return [Label(judged.keys[0], "toy.value", value, who, "2026-01-01", sample="s") for who, value in said]


def test_a_row_of_which_as_many_people_say_good_as_bad_is_a_tie_until_somebody_decides(judged):
    split = _people(judged, ("ben", 0.0), ("anna", 1.0), ("eve", None))
    [tie] = ties(judged, split)
    assert (tie.index, tie.said, tie.sample) == (0, ["anna: good", "ben: bad", "eve: can't tell"], "s")
    assert report_labels(judged, split, []).tied == 1
    for decided in (("zoe", 1.0), ("adjudicated", 0.0), ("adjudicated", None)):
        more = split + _people(judged, decided)
        assert not ties(judged, more)
        assert report_labels(judged, more, []).tied == 0
    assert not ties(judged, _people(judged, ("anna", None), ("ben", None)))
    assert not ties(judged, [])


def test_labels_that_are_numbers_are_averaged_and_have_no_ties(scored):
    numbers = read_judged_rows(*scored, "toy.points")
    with pytest.raises(UsageError, match="the mean counts"):
        ties(numbers, _people(numbers, ("anna", 0.0), ("ben", 1.0)))


def test_a_metric_that_the_run_does_not_have_is_refused_with_those_it_has(scored):
    with pytest.raises(UsageError, match=r"no metric 'nope'.*") as refused:
        read_judged_rows(*scored, "nope")
    assert "toy" in str(refused.value.hint)


def test_labels_that_a_set_has_are_not_written_again_and_a_changed_mind_counts(tmp_path):
    labels = LabelSet(Store.open(tmp_path), "people")
    first = Label("0" * 32, "toy.value", 1.0, "anna", "2026-01-01T00:00:00")
    assert labels.add([first, first]) == 1
    assert labels.add([replace(first, at="2026-01-02T00:00:00")]) == 0
    assert labels.add([replace(first, model="bot", case="c")]) == 0  # what readers are told makes no label another
    assert labels.add([replace(first, value=None, at="2026-01-03T00:00:00")]) == 1
    assert [label.value for label in labels.labels()] == [None]
    assert len(labels.history()) == 2
    assert [found.name for found in label_sets(Store.open(tmp_path))] == ["people"]


@pytest.mark.parametrize("damaged", [lambda content: b"broken", lambda content: content.replace(b"anna", b"ann\xff")],
                         ids=["all of it", "a byte of a name"])  # fmt: skip
def test_a_damaged_file_of_labels_is_named(tmp_path, damaged):
    labels = LabelSet(Store.open(tmp_path))
    labels.add([Label("0" * 32, "toy.value", 1.0, "anna", "2026-01-01")])
    [path] = labels.folder.glob("*.parquet")
    path.write_bytes(damaged(path.read_bytes()))
    with pytest.raises(StoreError, match=path.name):
        labels.labels()


@pytest.mark.parametrize("name", ["../up", "", "a/b", ".hidden"])
def test_a_set_cannot_lie_elsewhere(tmp_path, name):
    with pytest.raises(UsageError, match="cannot be the name"):
        LabelSet(Store.open(tmp_path), name)


def test_a_set_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no set of labels 'x'"):
        find_label_set(Store.open(tmp_path), "x")


@pytest.mark.parametrize("suffix", [".csv", ".json", ".jsonl"])
def test_labels_are_read_as_they_were_written(tmp_path, suffix):
    given = [
        Label("a" * 32, "toy.value", 1.0, "anna", "2026-01-01", "case, 1", "bot", note='says "no"\nand more'),
        Label("b" * 32, "toy.value", None, "ben", "2026-01-02"),
        Label("c" * 32, "toy.value", 0.0, "eve", "2026-01-03", saw_judge=True, sample="s"),
    ]
    path = tmp_path / f"labels{suffix}"
    path.write_text(write_labels(given, path))
    assert read_labels(path) == given
    seen = {("toy.value", "b" * 32): {"model": "bot", "question": "How deep?", "contexts": ["a", "b"], "expected": []}}
    path.write_text(write_labels(given, path, seen))
    assert read_labels(path) == [given[0], replace(given[1], model="bot"), given[2]]
    assert "How deep?" in path.read_text()


def test_a_table_names_rows_by_case_and_people_write_words(tmp_path, judged):
    path = tmp_path / "labels.csv"
    path.write_text("case,value,person\ncase-1,pass,anna\ncase-2,Fail,anna\ncase-3,can't tell,anna\n")
    found = read_labels(path, judged, question="toy.value")
    assert [label.value for label in found] == [1, 0, None]
    assert found[0].key == judged.keys[judged.cases.index("case-1")]


def test_lines_end_at_line_feeds_alone(tmp_path):
    path = tmp_path / "sheet.jsonl"
    task = {"key": "a" * 32, "question_id": "toy.value", "question": "What?\u2028\x85", "value": 1, "person": "anna"}
    path.write_text(json.dumps(task, ensure_ascii=False) + "\n", encoding="utf-8")
    assert [(label.question, label.value) for label in read_labels(path)] == [("toy.value", 1.0)]


LABEL_STUDIO = [
    {
        "id": 1,
        "data": {"key": "a" * 32, "question_id": "toy.value", "question": "What?", "sample": "s"},
        "annotations": [
            {
                "completed_by": {"email": "anna@example.com"},
                "updated_at": "2026-01-01T00:00:00Z",
                "result": [
                    {"type": "choices", "value": {"choices": ["Good"]}},
                    {"type": "textarea", "value": {"text": ["fine"]}},
                ],
            },
            {"completed_by": 7, "was_cancelled": True, "result": []},
        ],
    }
]
ARGILLA = [
    {
        "id": "1",
        "fields": {"answer": "x"},
        "metadata": {"key": "a" * 32, "question_id": "toy.value"},
        "responses": {"quality": [{"value": "bad", "user_id": "u1"}, {"value": 4, "user_id": "u2"}]},
    }
]


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        (LABEL_STUDIO, [("anna@example.com", 1.0, "fine"), ("7", None, "")]),
        (ARGILLA, [("u1", 0.0, ""), ("u2", 4.0, "")]),
    ],
)
def test_exports_of_labelling_tools_are_read(tmp_path, tool, said):
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tool))
    found = read_labels(path)
    assert [(label.person, label.value, label.note) for label in found] == said
    assert {label.question for label in found} == {"toy.value"}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.jsonl", '{"key": "short", "question": "q", "person": "p", "value": 1}', "line 1: key is 'short'"),
        ("a.jsonl", '\n{"key": "' + "a" * 32 + '", "question": "q", "person": "p", "value": "maybe"}', "line 2: value"),
        ("a.csv", "case,value,person\nghost,1,anna\n", "no row of case 'ghost'"),
        ("a.json", "{", "is not .json"),
        ("a.json", "[" * 100_000, "is not .json"),
        ("a.json", "[1]", "entry 1 is no JSON object"),
        ("a.jsonl", "\ud83d".encode("utf-8", "surrogatepass").decode("latin1"), "is not .jsonl"),
        ("a.jsonl", '{"key": "' + "a" * 32 + '", "question": "q", "value": 1}', "person is ''"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_its_place(tmp_path, name, text, words):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        read_labels(path)
    assert words in str(refused.value)


def test_labels_correct_a_judge_that_errs_where_rows_were_drawn(judged):
    sample = _sample(judged)
    labels = [_label(row, judged.metric.id) for row in sample.rows]
    report = report_labels(judged, labels, [sample])
    [model] = report.models
    assert model.corrected is not None
    assert model.corrected.low <= 0.75 <= model.corrected.high
    assert model.agreed is not None
    assert 0.75 < model.agreed.accuracy.value < 0.95
    assert model.labels_alone is not None
    assert model.corrected.high - model.corrected.low < model.labels_alone.high - model.labels_alone.low
    assert (model.state, report.stale) == ("valid", 0)
    gone = Label("f" * 32, "toy.value", 1.0, "anna", "2026-01-01")
    assert report_labels(judged, [*labels, gone], [sample]).stale == 1
    [chosen] = report_labels(judged, labels, []).models  # rows that somebody chose compare, and do not correct
    assert (chosen.corrected, chosen.state) == (None, "not drawn")
    assert chosen.agreed is not None


def test_few_labels_certify_nothing(judged):
    sample = _sample(judged)
    [model] = report_labels(judged, [_label(row, "toy.value") for row in sample.rows[:30]], [sample]).models
    assert model.state == "few"
    assert report_labels(judged, [], [sample]).models[0].state == "none"


def test_a_judge_that_people_contradict_is_not_certified(judged):
    sample = _sample(judged)
    coin = random.Random(1)
    labels = [_label(row, "toy.value", value=float(coin.random() < 0.5)) for row in sample.rows]
    assert report_labels(judged, labels, [sample]).models[0].state == "failed"


def test_several_people_are_taken_together_and_an_adjudicated_label_stands_for_all(judged):
    sample = _sample(judged)
    labels = []
    for row in sample.rows:
        good = _label(row, "toy.value").value
        labels += [_label(row, "toy.value", "anna"), _label(row, "toy.value", "ben")]
        labels.append(_label(row, "toy.value", "carl", value=1 - good))
    report = report_labels(judged, labels, [sample])
    assert report.people_alpha < 0.5
    assert report.people_alpha_low <= report.people_alpha <= report.people_alpha_high
    majority = report.models[0].corrected
    settled = [_label(row, "toy.value", "adjudicated", value=1.0) for row in sample.rows]
    assert majority is not None
    assert majority.value < 0.9
    assert report_labels(judged, [*labels, *settled], [sample]).models[0].corrected.value > 0.9


@pytest.mark.parametrize("how", ["uniform", "balanced", "by-score"])
def test_numbers_are_corrected_however_rows_were_drawn(scored, how):
    numbers = read_judged_rows(*scored, "toy.points")
    sample = _sample(numbers, how)
    truth = np.array([3.0 * _truth(int(case.split("-")[1])) + 1 for case in numbers.cases])
    known = dict(zip(numbers.keys, truth, strict=True))
    labels = [_label(row, "toy.points", value=float(known[row.key])) for row in sample.rows]
    report = report_labels(numbers, labels, [sample])
    [model] = report.models
    assert not report.binary
    assert model.corrected is not None
    assert model.corrected.low <= truth.mean() <= model.corrected.high
    assert model.rank_correlation > 0.5


def test_labels_of_an_older_judges_sample_still_correct(judged):
    sample = replace(_sample(judged, "balanced"), config="another prompt")
    labels = [_label(row, judged.metric.id) for row in sample.rows]
    [model] = report_labels(judged, labels, [sample]).models
    assert model.corrected is not None
    assert model.corrected.low <= 0.75 <= model.corrected.high


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("case,model,value,person\ncase-1,bot,99,anna\n", "must be from 0 to 1"),
        ("foo,bar\n1,2\n", "neither key nor case"),
    ],
)
def test_values_out_of_range_and_lines_without_a_row_are_refused(tmp_path, judged, text, words):
    file = tmp_path / "labels.csv"
    file.write_text(text)
    known = replace(judged, metric=replace(judged.metric, evaluator="sexism", metric="no_sexism_pass"))
    with pytest.raises(UsageError, match=words):
        read_labels(file, known, person="anna", question=known.metric.id)


def test_a_few_rows_of_several_people_tell_nothing_of_how_far_they_agree(judged):
    sample = _sample(judged)
    labels = [_label(row, judged.metric.id) for row in sample.rows]

    def alpha(shared):
        more = [_label(row, judged.metric.id, "ben") for row in sample.rows[:shared]]
        return report_labels(judged, labels + more, [sample]).people_alpha

    assert np.isnan(alpha(9))
    assert alpha(60) == 1.0
