"""Which evaluators a dataset is for, and why the others are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.core import registry
from leadline.evaluators.settings import JudgeConfig, Settings
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.plan.dataset_profile import profile
from leadline.tasks.plan.selection import BY_NAME, NO_JUDGE, Choice, applicable_to, choose
from leadline.tasks.store.store import Store
from tests.support.datasets.loading import as_jsonl, write

Records = Sequence[Mapping[str, Any]]

WITHOUT = Settings(embedder="offline")
WITH = Settings(embedder="offline", judges=(JudgeConfig(model="openai/some-model"),))

ANSWERS = (
    "You can return any item within 30 days of delivery.",
    "We pay for the shipping of every return that we accept.",
    "We accept Visa, Mastercard and American Express in all our shops.",
)
BOT = [
    {"question": f"What about item {n}?", "expected_answer": f"{n} days", "actual_answer": answer,
     "retrieved_context": [answer, "Our shops are open from nine to six."]}
    for n, answer in enumerate(ANSWERS * 4)
]  # fmt: skip
CHAT = [
    {"question": f"How high is crane {n}?", "expected_answer": f"Crane {n} is some {n + 20} metres high.",
     "actual_answer": f"The height of crane {n} is {n + 20} metres.", "condition": f'"{n + 20}"'}
    for n in range(12)
]  # fmt: skip
LABELS = [
    {"question": f"Ticket {n}: my parcel is late.", "expected_answer": ("late", "lost", "fine")[n % 3],
     "actual_answer": ("Late.", "fine", "fine")[n % 3]}
    for n in range(12)
]  # fmt: skip
SUMMARIES = [
    {"question": f"Report {n}. " + "The tide gauge on the lantern mole takes a reading every six minutes. " * 20,
     "actual_answer": "A gauge on the mole reads the tide every six minutes, day and night."}
    for n in range(6)
]  # fmt: skip
CHINESE = [
    {"question": f"泊位{n}有多深?", "expected_answer": f"泊位{n}的水深在低潮时为十二米左右。",
     "actual_answer": f"低潮时泊位{n}的水深约为十二米。"}
    for n in range(6)
]  # fmt: skip

OWN = """
import leadline

@leadline.register
class Own(leadline.RowEvaluator):
    spec = leadline.Spec.simple("own", inputs=["actual_answer"], higher_is_better=True, suits=("sentences",))

    def score_row(self, row, ctx):
        return leadline.RowScore({"own": 1.0})
"""


def chosen(
    folder: Path, records: Records, suite: str | None = None, *named: str, settings: Settings = WITHOUT
) -> Choice:
    loaded = load_dataset(Store.open(folder / "store"), write(folder, "d.jsonl", as_jsonl(records)))
    return applicable_to(choose(suite, named, {}, settings), loaded.path)


def ids(choice: Choice) -> set[str]:
    return {evaluator.spec.id for evaluator in choice.evaluators}


@pytest.mark.parametrize(
    ("records", "wanted", "unwanted"),
    [
        pytest.param(
            BOT,
            {"groundedness", "pii_leakage", "looping_detection"},
            {"classification", "bleu", "rouge", "answer_semantic_similarity", "text_matching", "llamaindex.retrieval"},
            id="rag",
        ),
        pytest.param(
            CHAT,
            {"text_matching", "answer_semantic_similarity", "bleu", "rouge", "pii_leakage"},
            {"classification", "groundedness", "context_relevancy_soft", "summarization_judge"},
            id="chatbot",
        ),
        pytest.param(
            LABELS,
            {"classification", "pii_leakage"},
            {"bleu", "answer_semantic_similarity", "answer_relevancy_sentence_similarity", "text_matching"},
            id="labels",
        ),
        pytest.param(SUMMARIES, {"pii_leakage"}, {"answer_relevancy_sentence_similarity", "classification"}, id="sums"),
        pytest.param(CHINESE, {"answer_semantic_similarity", "bleu"}, {"classification", "groundedness"}, id="chinese"),
    ],
)
def test_a_run_that_names_nothing_takes_what_the_dataset_is_for(
    tmp_path: Path, records: Records, wanted: set[str], unwanted: set[str]
) -> None:
    choice = chosen(tmp_path, records)
    assert wanted <= ids(choice)
    assert not unwanted & ids(choice)
    assert unwanted <= choice.left_out.keys()
    assert not ids(choice) & choice.left_out.keys()


@pytest.mark.parametrize(
    ("records", "evaluator", "reason"),
    [
        (BOT, "classification", "the expected answers are no labels: 12 different ones in 12 questions"),
        (BOT, "rouge", "answers and expected answers differ in length: 11 words against 2 (medians)"),
        (BOT, "answer_semantic_similarity", "the expected answers are no sentences: half of them have at most 2 words"),
        (BOT, "text_matching", "no case has a condition"),
        (BOT, "faithfulness", NO_JUDGE),
        (BOT, "fact_check", BY_NAME),
        (BOT, "summarization_judge", "the questions are no documents to summarise: half have at most 4 words"),
        (CHAT, "valor.rouge", "it looks like rouge, which runs"),
        (CHAT, "groundedness", "no row has a retrieved context"),
        (CHAT, "valor.object_detection", "the dataset has no annotations"),
        (SUMMARIES, "answer_relevancy", "the questions are documents to summarise"),
        (LABELS, "llamaindex.correctness", "the questions are items to label"),
    ],
)
def test_why_an_evaluator_is_left_out_stands_beside_it(
    tmp_path: Path, records: Records, evaluator: str, reason: str
) -> None:
    assert chosen(tmp_path, records).left_out[evaluator] == reason


def test_labels_that_are_answered_in_sentences_are_not_compared_as_labels(tmp_path: Path) -> None:
    wordy = [record | {"actual_answer": "I would say that this parcel is late."} for record in LABELS]
    choice = chosen(tmp_path, wordy)
    assert choice.left_out["classification"] == "the expected answers may be labels, but the answers are not"


def test_perturbed_copies_do_not_make_a_reference_a_label(tmp_path: Path) -> None:
    records = [{"case": f"c{n}", "question": f"How deep is berth {n}?", "expected_answer": f"{n} m",
                "actual_answer": f"{n} m"} for n in range(3)]  # fmt: skip
    copies = [
        record | {"case": f"{record['case']}~{kind}", "question": f"{record['question']}{kind}", "relationships": [
            {"type": "perturbation_source", "target": record["case"], "perturbation": kind}]}
        for record in records for kind in ("typo", "comma")
    ]  # fmt: skip
    assert "classification" in chosen(tmp_path, [*records, *copies]).left_out


def test_of_look_alikes_the_first_that_can_run_is_taken(tmp_path: Path) -> None:
    grounded = {"faithfulness", "groundedness", "valor.faithfulness", "llamaindex.faithfulness"}
    assert ids(chosen(tmp_path, BOT)) & grounded == {"groundedness"}
    judged = chosen(tmp_path, BOT, settings=WITH)
    assert ids(judged) & grounded == {"faithfulness"}
    assert judged.left_out["groundedness"] == "it looks like faithfulness, which runs"
    assert "llamaindex.correctness" in ids(judged)
    suite = chosen(tmp_path, CHAT, "chatbot", settings=WITH)
    assert suite.left_out["answer_correctness"] == "it looks like llamaindex.correctness, which runs"
    assert "sexism" in ids(suite)
    assert "sexism" not in ids(chosen(tmp_path, CHAT, settings=WITH)), "a few judges decide what is asked by default"


def test_summaries_are_judged_as_summaries(tmp_path: Path) -> None:
    choice = chosen(tmp_path, SUMMARIES, "summarization", settings=WITH)
    assert ids(choice) == {"summarization_judge", "valor.summary_coherence"}
    assert choice.left_out["bleu"] == "no case has an expected answer"


def test_a_suite_of_a_purpose_takes_what_applies_and_what_is_named_besides(tmp_path: Path) -> None:
    choice = chosen(tmp_path, BOT, "rag", "bleu", "valor.rouge")
    assert {"bleu", "valor.rouge", "groundedness"} <= ids(choice)
    assert "text_matching" in choice.left_out
    assert "toxicity" not in choice.left_out, "it is not of this suite"


def test_another_suite_runs_whole(tmp_path: Path) -> None:
    choice = chosen(tmp_path, BOT, "rules")
    assert {"bleu", "valor.bleu", "classification", "text_matching"} <= ids(choice)


def test_what_is_named_runs_whatever_the_data(tmp_path: Path) -> None:
    choice = chosen(tmp_path, BOT, None, "classification", "text_matching")
    assert ids(choice) == {"classification", "text_matching"}
    assert choice.left_out == {}


def test_answers_that_a_host_did_not_give_do_not_leave_an_evaluator_out(tmp_path: Path) -> None:
    failed = [{"question": "What?", "error": "the host was away", "model": "m"}]
    assert "pii_leakage" in ids(chosen(tmp_path, failed))


def test_an_evaluator_of_the_users_own_can_say_what_data_it_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry.all_evaluators()))
    file = write(tmp_path, "own.py", OWN)
    settings = Settings(embedder="offline", evaluator_files=(str(file),))
    assert "own" in ids(chosen(tmp_path, CHAT, settings=settings))
    assert chosen(tmp_path, BOT, settings=settings).left_out["own"].startswith("the expected answers are no sentences")


def test_the_cases_of_the_benchmark_rgb_bring_its_evaluators(tmp_path: Path) -> None:
    records = [dict(record) | {"metadata": {"rgb": {"task": "noise_robustness"}}} for record in CHAT]
    assert "rgb.noise_robustness" in ids(chosen(tmp_path, records))
    assert "rgb.noise_robustness" in chosen(tmp_path, CHAT).left_out


def test_encoded_questions_bring_the_guardrail_of_encodings(tmp_path: Path) -> None:
    encoded = [dict(record) | {"categories": ["base64"]} for record in CHAT]
    assert "encoding_guardrail" in ids(chosen(tmp_path, encoded))
    assert "names an encoding" in chosen(tmp_path, CHAT).left_out["encoding_guardrail"]


def test_the_profile_of_a_dataset_without_texts_is_all_zero(tmp_path: Path) -> None:
    loaded = load_dataset(
        Store.open(tmp_path / "store"),
        write(tmp_path, "d.jsonl", as_jsonl([{"case": "1", "expected_annotations": [], "predicted_annotations": []}])),
    )
    facts = profile(loaded.path)
    assert not facts.texts
    assert (facts.references, facts.answer_words, facts.length_ratio, facts.question_words) == (0, 0, 0, 0)
