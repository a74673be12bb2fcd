"""Valor's ROUGE and BLEU equal the libraries that Valor calls."""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import Reason, Row, Unscored
from leadline.evaluators.ground import UsageError
from leadline.evaluators.summarization.bleu import ValorBleu, ValorBleuParams
from leadline.evaluators.summarization.rouge import ValorRouge, ValorRougeParams

TOOLS = EvalContext()
WORDS = st.sampled_from(["the", "cats", "Sat.", "on", "mat,", "running", "run", "\n", "\n\n", "$5", "3.5", "it's"])
TEXTS = st.one_of(st.lists(WORDS, max_size=25).map(" ".join), st.text("ab \n.", max_size=30))
TYPES = ("rouge1", "rouge2", "rouge4", "rougeL", "rougeLsum")


def rouge(answer, *expected, **parameters):
    row = Row("case", "model", expected_answers=expected, actual_answer=answer)
    return dict(ValorRouge(ValorRougeParams(**parameters)).score([row], TOOLS)[0].values)


def bleu(answer, *expected, **parameters):
    row = Row("case", "model", expected_answers=expected, actual_answer=answer)
    return ValorBleu(ValorBleuParams(**parameters)).score([row], TOOLS)[0].values["bleu"]


@settings(max_examples=500, deadline=None)
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3), st.booleans())
def test_rouge_equals_rouge_score(answer, expected, stem):
    from rouge_score.rouge_scorer import RougeScorer

    scores = RougeScorer(TYPES, use_stemmer=stem).score_multi(expected, answer)
    ours = rouge(answer, *expected, rouge_types=TYPES, rouge_use_stemmer=stem)
    assert ours == pytest.approx({name: score.fmeasure for name, score in scores.items()}, abs=1e-12)


@settings(max_examples=400, deadline=None)
@given(
    TEXTS,
    st.lists(TEXTS, min_size=1, max_size=3),
    st.sampled_from([(1.0,), (0.0, 1.0), (0.25,) * 4, (0.1, 0.2, 0.7), (0.0,) * 9 + (1.0,)]),
)
def test_bleu_equals_nltk(answer, expected, weights):
    from nltk.tokenize import RegexpTokenizer
    from nltk.translate.bleu_score import sentence_bleu

    words = RegexpTokenizer(r"\w+|\$[\d]+|[^\s\.]+").tokenize
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = sentence_bleu([words(text) for text in expected], words(answer), weights)
    assert bleu(answer, *expected, bleu_weights=weights) == pytest.approx(reference, abs=1e-12)


def test_bleu_keeps_the_case():
    assert bleu("ANN LIKES BOB", "Ann likes Bob", bleu_weights=(1.0,)) == 0.0


def test_metrics_follow_the_types():
    evaluator = ValorRouge(ValorRougeParams(rouge_types=("rouge3", "rougeLsum")))
    assert [(metric.key, metric.primary) for metric in evaluator.metrics] == [("rouge3", True), ("rougeLsum", False)]
    assert evaluator.row_metrics == ("rouge3", "rougeLsum")
    assert [metric.key for metric in ValorRouge().metrics if metric.primary] == ["rougeL"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rouge_types": ["rouge1", "rougeW"]}, "'rougeW' is no ROUGE type"),
        ({"rouge_types": ["rouge10"]}, "'rouge10' is no ROUGE type"),
        ({"rouge_types": ["rouge1", "rouge1"]}, "named twice"),
        ({"rouge_types": []}, "at least 1 item"),
    ],
)
def test_wrong_types_are_refused(values, message):
    with pytest.raises(UsageError, match=message):
        ValorRougeParams.build("valor.rouge", values)


@pytest.mark.parametrize("weights", [[], [0.5], [0.5, 0.6], [-0.5, 1.5], [float("nan"), 1], [float("inf")], None, "x"])
def test_wrong_weights_are_refused(weights):
    with pytest.raises(UsageError, match=r"valor\.bleu\.bleu_weights"):
        ValorBleuParams.build("valor.bleu", {"bleu_weights": weights})


def test_lines_too_many_to_compare_leave_rougelsum_unscored():
    lines = "\n".join(map(str, range(8000)))
    scores = rouge(lines, lines)
    assert scores["rougeL"] == scores["rouge1"] == 1.0
    assert isinstance(scores["rougeLsum"], Unscored)
    assert scores["rougeLsum"].reason is Reason.UNSCORABLE
