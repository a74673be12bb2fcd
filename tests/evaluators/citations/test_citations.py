"""Citation recall and precision are ALCE's; markers, documents, addresses and quotations mean the contexts they
name."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.citations.citations import Citations, citations, statements
from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import ContextChunk, NotApplicable, Row
from leadline.evaluators.settings import Settings
from leadline.evaluators.text.sentences import Sentence

CHUNKS = (
    ContextChunk("The pump starts at seven. It stops at nine.", "https://Example.org/docs/manual.pdf"),
    ContextChunk("Pumps are loud and need oil.", "guides/oil guide.md"),
    ContextChunk("The harbour is twelve metres deep.", "https://www.example.org/depths/"),
)
CTX = EvalContext(Settings(embedder="offline", splitter="rules"))


def score(answer, ctx=CTX, chunks=CHUNKS, **params):
    row = Row("c", "m", actual_answer=answer, retrieved_context=chunks)
    return Citations(Citations.parameters(**params)).score([row], ctx)[0]


def alce(sentences, n_docs, supported):
    """ALCE's compute_autoais, with its counters, for sentences given as lists of references."""
    ais_recall = ais_precision = total_citations = 0
    for sent_id, ref in enumerate(sentences):
        if len(ref) == 0 or any(ref_id >= n_docs for ref_id in ref):
            joint_entail = 0
        else:
            joint_entail = int(supported(frozenset(ref), sent_id))
        total_citations += len(ref)
        ais_recall += joint_entail
        if joint_entail and len(ref) > 1:
            for psgs_id in ref:
                if not supported(frozenset([psgs_id]), sent_id):
                    subset_exclude = [other for other in ref if other != psgs_id]
                    if not supported(frozenset(subset_exclude), sent_id):
                        ais_precision += 1
                else:
                    ais_precision += 1
        else:
            ais_precision += joint_entail
    return ais_recall / len(sentences), ais_precision / total_citations if total_citations else 0


@given(
    st.lists(st.lists(st.integers(0, 4), unique=True, max_size=3), min_size=1, max_size=5),
    st.sets(st.tuples(st.frozensets(st.integers(0, 3), min_size=1), st.integers(0, 4))),
)
def test_recall_and_precision_equal_alces_script(references, facts):
    def supported(chunks, sentence):
        return any(number == sentence and needed <= chunks for needed, number in facts)

    answer = " ".join(
        f"Statement number {n}{''.join(f'[{r + 1}]' for r in refs)}." for n, refs in enumerate(references)
    )
    chunks = tuple(ContextChunk(f"context {n}") for n in range(4))
    row = Row("c", "m", actual_answer=answer, retrieved_context=chunks)
    sentences, at = [], 0
    for part in answer.split(". "):
        part = part if part.endswith(".") else f"{part}."
        sentences.append(Sentence(part, at, at + len(part)))
        at += len(part) + 1
    said = statements(answer, sentences, chunks)
    found = Citations()._scored(row, said, lambda cited, text: supported(cited, int(text.split()[2].rstrip("."))))
    recall, precision = alce(references, 4, supported)
    assert found.values["citation_recall"] == pytest.approx(recall)
    assert found.values["citation_precision"] == pytest.approx(precision)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("It starts at seven [1].", [("[1]", {0})]),
        ("It starts [1, 3].", [("[1]", {0}), ("[3]", {2})]),
        ("It starts [1-3].", [("[1]", {0}), ("[2]", {1}), ("[3]", {2})]),
        ("It starts [1][2].", [("[1]", {0}), ("[2]", {1})]),
        ("It starts【2†source】.", [("[2]", {1})]),
        ("It starts [7].", [("[7]", set())]),
        ("In the year [2023] it started.", []),
        ("It starts [sic] at seven [the pump].", []),
        ("It starts [manual.pdf].", [("[manual.pdf]", {0})]),
        ("It starts [doc: manual].", [("[doc: manual]", {0})]),
        ("It needs oil [Oil Guide.md].", [("[Oil Guide.md]", {1})]),
        ("It needs oil [other.pdf].", [("[other.pdf]", set())]),
        ("See https://example.org/docs/manual.pdf#page=2.", [("https://example.org/docs/manual.pdf#page=2", {0})]),
        ("It is [deep](http://example.org/depths).", [("http://example.org/depths", {2})]),
        ("It is [deep](https://elsewhere.org).", [("https://elsewhere.org", set())]),
        ('They say "Pumps are LOUD and need oil".', [("Pumps are LOUD and need oil", {1})]),
        ('They say "pumps are very quiet".', [("pumps are very quiet", set())]),
        ('A "loud" pump.', []),
    ],
)
def test_citations_mean_the_contexts_that_they_name(answer, expected):
    assert [(one.text, set(one.chunks)) for one in citations(answer, CHUNKS)] == expected


def test_addresses_are_no_citations_where_contexts_have_no_names():
    assert list(citations("See https://example.org.", [ContextChunk("x")])) == []


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("It starts at seven. [1] It needs oil. [2]", [["[1]"], ["[2]"]]),
        ("It starts at seven [1]. It needs oil.", [["[1]"], []]),
        ("[1] It starts at seven. It needs oil [2].", [["[1]"], ["[2]"]]),
        ("It starts at seven. See [2].", [["[2]"]]),
    ],
)
def test_markers_belong_to_the_sentence_before_them(answer, cited):
    said = statements(answer, CTX.sentences(answer), CHUNKS)
    assert [[one.text for one in statement.citations] for statement in said] == cited
    assert all("[" not in statement.text for statement in said)


def test_statements_are_supported_by_similar_sentences_of_what_they_cite():
    found = score("The pump starts at seven [1]. Pumps are loud and need oil [3]. It is blue.")
    assert found.values == {
        "citation_recall": pytest.approx(1 / 3),
        "citation_precision": 0.5,
        "citations_resolved": 1.0,
    }
    assert [span.value for span in found.evidence.spans] == [1.0, 0.0, 0.0]


def test_a_superfluous_citation_costs_precision():
    assert score("The pump starts at seven [1][3].").values["citation_precision"] == 0.5


def test_an_answer_that_cites_nothing_counts_unless_the_user_says_otherwise():
    assert score("I do not know that.").values["citation_recall"] == 0.0
    assert isinstance(score("I do not know that.", uncited=False).values["citation_recall"], NotApplicable)
    assert isinstance(score(" ").values["citation_recall"], NotApplicable)


@pytest.mark.slow
def test_a_model_for_inference_may_decide_and_reads_long_contexts_in_pieces(tiny: Callable[[str], Path]) -> None:
    rows = [
        Row("c", "m", actual_answer="The pump starts at seven [1][2].", retrieved_context=CHUNKS),
        Row("d", "m", actual_answer="It is deep [1].", retrieved_context=(ContextChunk("the harbour is deep " * 60),)),
    ]
    evaluator = Citations(Citations.parameters(nli_model=str(tiny("nli"))))
    together = evaluator.score(rows, CTX)
    assert [evaluator.score([row], CTX)[0].values for row in rows] == [each.values for each in together]
    assert all(value in (0.0, 0.5, 1.0) for each in together for value in each.values.values())


@pytest.mark.parametrize(
    "text",
    [
        "[1]" * 100_000,
        "[" * 300_000,
        '"a b c" ' * 40_000,
        "[a](" * 80_000,
        "https://a " * 50_000,
        "[1,2,3,4,5,6,7,8,9,1,2,3,4" * 20_000,
        "\u3010" + "1" * 300_000,
    ],
)
def test_absurd_answers_are_read_fast(text):
    started = time.process_time()
    list(citations(text, CHUNKS))
    assert time.process_time() - started < 10


def test_brackets_in_code_are_no_citations() -> None:
    chunks = [ContextChunk("One."), ContextChunk("Two.")]
    answer = "It is so [1].\n```python\nitems[7]\n```\nAnd `args[0]` too [2]."
    assert [one.text for one in citations(answer, chunks)] == ["[1]", "[2]"]
