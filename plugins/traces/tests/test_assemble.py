"""Spans become a conversation in which each message stands once, in the order in which it was said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leadline.evaluators.data import GivenChunk, Message, calls_of, turns_of
from leadline.plugins.traces.assemble import assemble
from leadline.plugins.traces.span import ELSEWHERE, IDS_ONLY, NOT_CAPTURED, Annotated, TraceCounts, TraceSpan, Usage
from leadline.tasks.load.conversation import Conversation
from leadline.tasks.load.label import GivenLabel


def says(role: Any, content: str = "", *calls: tuple[str, str], **further: Any) -> Message:
    message: Message = {"role": role, "content": content, **further}
    if calls:
        message["tool_calls"] = [{"id": id_, "name": name, "arguments": {}} for id_, name in calls]
    return message


USER, BOT = (lambda text: says("user", text)), (lambda text: says("assistant", text))
Q, A, YES, DONE = USER("Book it?"), BOT("Sure?"), USER("yes"), BOT("Done.")
CHUNK: GivenChunk = {"content": "High water is 5.4 m."}


def span(number: int, kind: Any = "llm", *, parent: int = 0, trace: str = "t", **fields: Any) -> TraceSpan:
    times = {"start_ns": number * 1000, "end_ns": number * 1000 + 500}
    return TraceSpan(trace, str(number), parent=str(parent or ""), kind=kind, **{**times, **fields})


def llm(number: int, inputs: Sequence[Message] | None, *outputs: Message, **fields: Any) -> TraceSpan:
    return span(number, inputs=inputs, outputs=list(outputs) or None, **fields)


def assembled(*spans: TraceSpan, counts: TraceCounts | None = None) -> Conversation:
    found = assemble(spans, counts or TraceCounts())
    assert found is not None
    return found


def contents(*spans: TraceSpan) -> list[str]:
    return [message["content"] for message in assembled(*spans).messages]


def test_history_that_each_call_repeats_stands_once() -> None:
    assert contents(llm(1, [Q], A), llm(2, [Q, A, YES], DONE)) == ["Book it?", "Sure?", "yes", "Done."]


def test_what_a_user_says_twice_stands_twice_with_history() -> None:
    again = [Q, A, YES, A, YES]
    assert contents(llm(1, [Q], A), llm(2, [Q, A, YES], A), llm(3, again, DONE)).count("yes") == 2


def test_what_a_user_says_twice_stands_twice_without_history() -> None:
    spans = [llm(number, [YES], DONE, trace=str(number)) for number in (1, 2)]
    assert contents(*spans) == ["yes", "Done.", "yes", "Done."]


def test_a_call_that_failed_and_is_made_again_is_one_turn() -> None:
    found = assembled(llm(1, [Q], error="overloaded"), llm(2, [Q], A))
    assert [message["content"] for message in found.messages] == ["Book it?", "Sure?"]
    assert found.error is None
    assert [step.get("error") for step in found.steps or ()] == ["overloaded", None]


def test_the_root_answers_where_the_last_recorded_call_of_the_model_asks_for_a_tool() -> None:
    calls = llm(2, [Q], says("assistant", "", ("c", "book")), parent=1)
    root = span(1, "chain", inputs=[Q], outputs=[DONE])
    tool = span(3, "tool", parent=1, name="book", result="ok")
    assert contents(root, calls, tool) == ["Book it?", "", "ok", "Done."]
    assert contents(root, calls, tool, llm(4, [Q], A, parent=1))[-1] == "Sure?"
    assert contents(span(1, "chain", outputs=[Q]), calls, tool)[-1] == "ok"
    assert contents(root, llm(2, [Q], A, parent=1)) == ["Book it?", "Sure?"]


def test_a_last_call_that_failed_is_an_error_instead_of_an_answer() -> None:
    assert assembled(llm(1, [Q], error="overloaded")).error == "overloaded"


def test_the_inner_of_two_spans_of_one_call_counts() -> None:
    outer = llm(1, [Q], A, usage=Usage(10, 5), end_ns=9000)
    found = assembled(outer, llm(2, [Q], A, parent=1, usage=Usage(10, 5)))
    assert [message["content"] for message in found.messages] == ["Book it?", "Sure?"]
    assert (found.input_tokens, found.output_tokens) == (10, 5)
    assert len(found.steps or ()) == 2


def test_the_outer_of_two_spans_counts_where_the_inner_has_no_content() -> None:
    inner = span(2, parent=1, missing=NOT_CAPTURED)
    assert contents(llm(1, [Q], A), inner) == ["Book it?", "Sure?"]


def test_a_trimmed_history_is_continued_and_told() -> None:
    other, last = USER("And the tide?"), BOT("5.4 m.")
    found = assembled(llm(1, [Q], A), llm(2, [Q, A, YES], DONE), llm(3, [YES, DONE, other], last))
    assert [message["content"] for message in found.messages][-3:] == ["Done.", "And the tide?", "5.4 m."]
    assert len(found.messages) == 6
    assert found.metadata["history_rewritten"] is True


def test_a_summarised_history_keeps_what_was_said() -> None:
    summary = BOT("Summary: a berth was asked for.")
    found = assembled(llm(1, [Q], A), llm(2, [Q, A, YES], DONE), llm(3, [summary, YES], A))
    assert [message["content"] for message in found.messages] == ["Book it?", "Sure?", "yes", "Done.", "yes", "Sure?"]
    assert found.metadata["history_rewritten"] is True


def test_a_tools_result_that_is_cut_in_later_prompts_stands_once() -> None:
    call, result = says("assistant", "", ("c", "find")), says("tool", "long " * 100, tool_call_id="c")
    cut = says("tool", "long …", tool_call_id="c")
    found = assembled(llm(1, [Q], call), llm(2, [Q, call, result], A), llm(3, [Q, call, cut, A, YES], DONE))
    roles = "user assistant tool assistant user assistant".split()
    assert [message["role"] for message in found.messages] == roles


def test_calls_that_later_prompts_tell_one_by_one_with_their_results_stand_once() -> None:
    both = says("assistant", "", ("a", "find"), ("b", "book"))
    one, other = says("assistant", "", ("a", "find")), says("assistant", "", ("b", "book"))
    results = [says("tool", f"of {id_}", tool_call_id=id_) for id_ in "ab"]
    retold = [Q, one, results[0], other, results[1]]
    found = assembled(llm(1, [Q], both), llm(2, retold, other), llm(3, [*retold, other, results[1]], DONE))
    assert [(call.name, call.result) for call in calls_of(found.messages)] == [
        ("find", "of a"), ("book", "of b"), ("book", "of b"),
    ]  # fmt: skip
    assert [
        message["role"] for message in found.messages
    ] == "user assistant tool tool assistant tool assistant".split()


def test_a_history_that_is_kept_whole_is_not_called_rewritten() -> None:
    assert "history_rewritten" not in assembled(llm(1, [Q], A), llm(2, [Q, A, YES], DONE)).metadata


def test_parallel_calls_get_their_results_by_id_in_whatever_order_they_end() -> None:
    asks = says("assistant", "", ("a", "tide"), ("b", "tide"))
    tools = [
        span(3, "tool", name="tide", call_id="b", result="2 m"),
        span(4, "tool", name="tide", call_id="a", result="1 m"),
    ]
    found = assembled(llm(1, [Q], asks), *tools)
    assert [call.result for call in calls_of(found.messages)] == ["1 m", "2 m"]
    assert [call["id"] for call in found.messages[1]["tool_calls"]] == ["1", "2"]


def test_calls_without_ids_get_their_results_by_name_and_order() -> None:
    asks = says("assistant", "", ("", "tide"), ("", "wind"), ("", "tide"))
    tools = [span(n, "tool", name=name, result=f"{name} {n}") for n, name in ((2, "tide"), (3, "wind"), (4, "tide"))]
    assert [call.result for call in calls_of(assembled(llm(1, [Q], asks), *tools).messages)] == [
        "tide 2",
        "wind 3",
        "tide 4",
    ]


def test_a_call_of_an_mcp_server_is_one_call() -> None:
    asks = says("assistant", "", ("a", "tide"), ("b", "tide"))
    tools = [
        span(2, "tool", name="tide", call_id="a"),
        span(3, "tool", name="tide", parent=2, result="1 m"),
        span(4, "tool", name="tide", call_id="b", result="2 m"),
        span(5, "tool", name="tide", call_id="b", result="2 m"),
    ]
    counts = TraceCounts()
    found = assembled(llm(1, [Q], asks), *tools, counts=counts)
    assert [call.result for call in calls_of(found.messages)] == ["1 m", "2 m"]
    assert counts.unmatched == 0


def test_an_error_that_only_the_tools_span_tells_stands_at_its_result() -> None:
    asks, result = says("assistant", "", ("a", "tide")), says("tool", "No such harbour", tool_call_id="a")
    tool = span(2, "tool", name="tide", call_id="a", error="LookupError")
    [call] = calls_of(assembled(llm(1, [Q], asks), tool, llm(3, [Q, asks, result], A)).messages)
    assert (call.result, call.error) == ("No such harbour", "LookupError")


def test_a_sub_agent_is_steps_and_its_tool_returns_the_answer() -> None:
    asks = says("assistant", "", ("a", "ask_pilot"))
    found = assembled(
        llm(1, [Q], asks),
        span(2, "tool", name="ask_pilot", call_id="a", result="High water at six."),
        span(3, "agent", name="pilot", parent=2),
        llm(4, [USER("When is high water?")], BOT("High water at six."), parent=3),
        llm(5, [Q, asks, says("tool", "High water at six.", tool_call_id="a")], DONE),
    )
    assert [m["content"] for m in found.messages] == ["Book it?", "", "High water at six.", "Done."]
    assert [(step["kind"], step.get("parent")) for step in found.steps or ()] == [
        ("llm", None),
        ("tool", None),
        ("agent", 1),
        ("llm", 2),
        ("llm", None),
    ]


def test_after_a_handoff_the_targets_output_is_the_answer() -> None:
    found = assembled(
        llm(1, [Q], says("assistant", "", ("a", "transfer"))),
        span(2, "tool", name="transfer", call_id="a", result="transferred", passes_control=True),
        span(3, "agent", name="harbour master", parent=2),
        llm(4, [USER("Handle a booking.")], DONE, parent=3),
    )
    [turn] = turns_of(found.messages)
    assert turn.answer == "Done."
    assert [message["role"] for message in found.messages] == ["user", "assistant", "tool", "assistant"]


def test_documents_stand_at_the_answer_of_the_turn_in_which_they_were_retrieved() -> None:
    other: GivenChunk = {"content": "Berth 7 is free."}
    found = assembled(
        span(1, "retriever", trace="1", documents=[CHUNK]),
        llm(2, [Q], A, trace="1"),
        llm(3, [Q, A, YES], says("assistant", "", ("a", "find")), trace="2"),
        span(4, "retriever", trace="2", documents=[other]),
        llm(5, [Q, A, YES, says("assistant", "", ("a", "find"))], DONE, trace="2"),
    )
    assert [turn.retrieved_context for turn in turns_of(found.messages)] == [(CHUNK,), (other,)]
    assert found.messages[-1]["retrieved_context"] == [other]


def test_a_trace_that_has_not_ended_is_counted_and_not_loaded() -> None:
    counts = TraceCounts()
    found = assembled(llm(1, [Q], A, trace="1"), llm(2, [Q, A, YES], trace="2", end_ns=0), counts=counts)
    assert (counts.traces, counts.pending, len(found.messages)) == (2, 1, 2)
    assert assemble([llm(1, [Q], end_ns=0)], counts) is None


def test_content_that_is_not_here_is_counted() -> None:
    counts = TraceCounts()
    spans = [span(1, missing=NOT_CAPTURED), span(2, missing=ELSEWHERE), span(3, "retriever", missing=IDS_ONLY)]
    assert assemble(spans, counts) is None
    assert (counts.not_captured, counts.elsewhere, counts.ids_only, counts.empty) == (1, 1, 1, 1)


def test_agents_whose_calls_are_not_recorded_are_conversations_with_their_tools() -> None:
    agent = span(1, "agent", inputs=[Q], outputs=[DONE], end_ns=9000)
    found = assembled(agent, span(2, "tool", name="book", parent=1, arguments={"berth": 7}, result="ok"))
    assert [(call.name, call.arguments, call.result) for call in calls_of(found.messages)] == [
        ("book", {"berth": 7}, "ok")
    ]
    assert turns_of(found.messages)[0].answer == "Done."


def test_what_stands_before_the_first_recorded_call_is_given() -> None:
    found = assembled(llm(1, [says("system", "Help."), Q, A, YES], DONE), span(2, "retriever", documents=[CHUNK]))
    assert (found.given, turns_of(found.messages)[1].retrieved_context) == (3, (CHUNK,))
    assert [step["turn"] for step in found.steps or ()] == [1, 1]  # of those that are scored
    assert assembled(llm(1, [says("system", "Help."), Q], DONE)).given == 0


def test_what_people_said_is_labels_and_what_programs_said_is_metadata() -> None:
    annotations = [
        Annotated("correctness", 1.0, "anna", human=True, note="right"),
        Annotated("correctness", "good", "ben", human=True),
        Annotated("correctness", 0.5, "judge"),
        Annotated("mood", "cheerful", "anna", human=True),
    ]
    found = assembled(llm(1, [Q], A, annotations=annotations))
    assert found.labels == [
        GivenLabel("correctness", 1.0, "anna", "right"),
        GivenLabel("correctness", 1.0, "ben", ""),
    ]
    others: Any = found.metadata["annotations"]
    assert [(each["name"], each["value"]) for each in others] == [("correctness", 0.5), ("mood", "cheerful")]


def test_a_circle_of_parents_is_opened_and_counted() -> None:
    counts = TraceCounts()
    found = assembled(llm(1, [Q], A, parent=2), span(2, "agent", parent=3), span(3, "chain", parent=1), counts=counts)
    assert (counts.circles, len(found.steps or ())) == (1, 3)
    assert sum("parent" in step for step in found.steps or ()) == 2
    assembled(llm(1, [Q], A, parent=1), counts=counts)
    assert counts.circles == 2


def test_clocks_that_run_backwards_are_counted_and_parents_come_first() -> None:
    counts = TraceCounts()
    found = assembled(span(5, "agent"), llm(1, [Q], A, parent=5), counts=counts)
    assert [step["kind"] for step in found.steps or ()] == ["agent", "llm"]
    assert counts.clocks == 1
    assert assembled(llm(3, [Q], A, end_ns=1), counts=counts).duration_s is None
    assert counts.clocks == 2


def test_a_span_that_is_sent_twice_counts_once() -> None:
    counts = TraceCounts()
    found = assembled(llm(1, [Q], end_ns=0), llm(1, [Q], A), counts=counts)
    assert (len(found.messages), counts.repeated, counts.pending) == (2, 1, 0)


def test_ten_thousand_spans_below_each_other_are_put_together() -> None:
    asks = says("assistant", "", *((f"c{n}", "tide") for n in range(5000)))
    deep = [span(n, "tool", parent=n - 1, name="tide", call_id=f"c{n}") for n in range(2, 5002)]
    wide = [span(n, "tool", parent=1, name="tide", call_id=f"c{n - 5002}", result="1 m") for n in range(5002, 10_000)]
    found = assembled(llm(1, [Q], asks), *deep, *wide)
    assert len(found.steps or ()) == 9_999
    assert sum(call.result == "1 m" for call in calls_of(found.messages)) == 4_998


def test_putting_together_leaves_the_spans_as_they_were() -> None:
    spans = [span(1, "retriever", documents=[{"content": "x"}]), llm(2, [Q], A)]
    assert assembled(*spans) == assembled(*spans)


def test_the_result_of_a_call_that_asked_for_more_is_that_of_its_last_span() -> None:
    asked = span(2, "tool", parent=1, name="tide", call_id="c")
    told = span(3, "tool", parent=1, name="tide", call_id="c", result="5 m")
    found = assembled(llm(1, [Q], says("assistant", "", ("c", "tide"))), asked, told)
    assert [call.result for call in calls_of(found.messages)] == ["5 m"]
    assert len(found.steps or ()) == 3
