"""The wrappers of docs/bridges.md around LangChain, LangGraph and LlamaIndex; the datasets of ragas and deepeval."""

from __future__ import annotations

from typing import Any

import pytest
from deepeval.dataset import EvaluationDataset as DeepevalDataset
from deepeval.test_case import LLMTestCase
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from llama_index.core import Document as Page
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms import MockLLM
from ragas import EvaluationDataset, SingleTurnSample

from leadline import evaluate
from leadline.tasks.runs.show import case
from tests.support.docs.blocks import ROOT, blocks_of

CASES = [{"case": "start", "question": "When does the pump start?", "expected_answer": "At seven."}]


def wrapper(number: int) -> Any:
    """Return ``target_of`` as one of the page's wrappers defines it."""
    sources = [block.text for block in blocks_of(ROOT / "docs" / "bridges.md") if "def target_of" in block.text]
    assert len([line for line in sources[number].splitlines() if line.strip()]) < 20
    names: dict[str, Any] = {}
    exec(sources[number], names)
    return names["target_of"]


class Manual(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document("The pump starts at seven.", metadata={"source": "manual.pdf"}), Document("It is loud.")]


@tool
def clock(machine: str) -> str:
    """Say when a machine starts."""
    return f"The {machine} starts at seven."


def answered(result: Any) -> dict[str, Any]:
    """Return the one answer of a run as the store keeps it."""
    [answer] = case(result.store, result.store.run(result.run), "start")["answers"]
    return dict(answer)


def test_a_chain_is_a_target_with_its_contexts_and_tokens() -> None:
    usage = {"input_tokens": 20, "output_tokens": 3, "total_tokens": 23}
    model = GenericFakeChatModel(messages=iter([AIMessage("At seven.", usage_metadata=usage)]))
    chain = Manual() | RunnableLambda(lambda found: found[0].page_content) | model | StrOutputParser()
    result = evaluate(CASES, target=wrapper(0)(chain), metrics=["bleu"])
    answer = answered(result)
    assert answer["actual_answer"] == "At seven."
    assert answer["retrieved_context"] == [
        {"content": "The pump starts at seven.", "doc_uri": "manual.pdf"},
        {"content": "It is loud.", "doc_uri": None},
    ]
    assert (answer["input_tokens"], answer["output_tokens"]) == (20, 3)
    assert result.aggregates.query("metric == 'bleu_1'").value.item() == pytest.approx(1.0)


def test_a_graph_is_a_target_with_its_tool_calls() -> None:
    call = {"name": "clock", "args": {"machine": "pump"}, "id": "1"}
    said = iter([AIMessage("", tool_calls=[call]), AIMessage("At seven.")])
    model = GenericFakeChatModel(messages=said)
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([clock]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    target = wrapper(0)(
        graph.compile(),
        ask=lambda question: {"messages": [("user", question)]},
        read=lambda state: state["messages"][-1].content,
    )
    kept = {"reply": {"metadata": {"tools": "tools"}}}
    answer = answered(evaluate(CASES, target=target, target_settings=kept, metrics=["bleu"]))
    assert answer["actual_answer"] == "At seven."
    assert answer["metadata"]["tools"] == ["clock"]


def test_what_an_application_raises_is_the_rows_error_and_no_answer() -> None:
    def fail(question: str) -> str:
        raise ValueError("the index is broken")

    rows = [*CASES, CASES[0] | {"case": "stop", "question": "When does it stop?"}]
    model = FakeListChatModel(responses=["At seven."])
    app = RunnableLambda(lambda question: fail(question) if "stop" in question else model.invoke(question).content)
    result = evaluate(rows, target=wrapper(0)(app), metrics=["bleu"])
    [stopped] = case(result.store, result.store.run(result.run), "stop")["answers"]
    assert stopped["actual_answer"] is None
    assert "the index is broken" in stopped["error"]


def test_a_query_engine_is_a_target_with_its_nodes() -> None:
    page = Page(text="The pump starts at seven.", metadata={"file_name": "manual.pdf"})
    index = VectorStoreIndex.from_documents([page], embed_model=MockEmbedding(embed_dim=8))
    result = evaluate(CASES, target=wrapper(1)(index.as_query_engine(llm=MockLLM())), metrics=["bleu"])
    answer = answered(result)
    assert answer["retrieved_context"] == [{"content": "The pump starts at seven.", "doc_uri": "manual.pdf"}]
    assert "When does the pump start?" in answer["actual_answer"]  # the mock repeats its prompt


TEXTS = ("When does the pump start?", "At seven.", "At seven.", ["The pump starts at seven."])
SAMPLE = dict(zip(("user_input", "response", "reference", "retrieved_contexts"), TEXTS, strict=True))
TEST_CASE = dict(zip(("input", "actual_output", "expected_output", "retrieval_context"), TEXTS, strict=True))


@pytest.mark.parametrize("kind", ["dataset", "samples"])
def test_what_ragas_holds_is_evaluated(kind: str) -> None:
    samples = [SingleTurnSample(**SAMPLE)]
    result = evaluate(EvaluationDataset(samples=samples) if kind == "dataset" else samples, metrics=["bleu"])
    check(result)


@pytest.mark.parametrize("kind", ["dataset", "cases"])
def test_what_deepeval_holds_is_evaluated(kind: str) -> None:
    cases = [LLMTestCase(**TEST_CASE)]
    dataset = DeepevalDataset()
    for one in cases:
        dataset.add_test_case(one)
    check(evaluate(dataset if kind == "dataset" else cases, metrics=["bleu"]))


def check(result: Any) -> None:
    line = result.scores.query("metric == 'bleu_1'").iloc[0]
    assert line.value == pytest.approx(1.0)
    found = case(result.store, result.store.run(result.run), line["case"])
    assert (found["question"], found["expected_answers"]) == (TEXTS[0], [TEXTS[2]])
    assert [chunk["content"] for chunk in found["answers"][0]["retrieved_context"]] == TEXTS[3]
