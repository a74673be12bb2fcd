"""Conditions of form, and the parts of Markdown as markdown-it counts them."""

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import NotApplicable, Row, Unscored
from leadline.evaluators.ground import UsageError
from leadline.evaluators.settings import Settings
from leadline.evaluators.structured.format_conditions import Format
from leadline.evaluators.text.markdown import markdown_parts

BLOCKS = st.lists(
    st.sampled_from(
        [
            "# Title",
            "### Part #",
            "- one\n- two",
            "* star\n* **bold** star",
            "1. first\n2. second",
            "```python\n# no heading\n- no bullet\n```",
            "~~~\nplain\n~~~",
            "| a | b |\n|---|---|\n| 1 | 2 |",
            "Some words, and [a link](https://example.com).",
            "![picture](x.png) in words",
            "A line\nand another line",
            "> quoted",
        ]
    ),
    max_size=8,
)
TEXT = "# Answer\n\nIt is seven. It ends at nine.\n\n- one\n- two\n\n```sql\nSELECT 1\n```\n"


def score(answer, metadata=None, **params):
    ctx = EvalContext(Settings(splitter="rules"))
    row = Row("c", "m", actual_answer=answer, metadata=metadata or {})
    return Format(Format.parameters.build("format", params)).score([row], ctx)[0]


@given(BLOCKS)
def test_parts_are_those_of_markdown_it(blocks):
    text = "\n\n".join(part for block in blocks for part in (block, "<!-- -->"))  # keeps neighbouring lists apart
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    counted, lists = Counter(), []
    for token in tokens:
        counted[token.type] += 1
        if token.type in ("bullet_list_open", "ordered_list_open"):
            lists.append(token.type)
        if token.type == "list_item_open":
            counted[f"{lists[-1]}:item"] += 1
        for inner in token.children or ():
            counted[inner.type] += 1
    parts = markdown_parts(text)
    assert [fence.language for fence in parts.fences] == [token.info for token in tokens if token.type == "fence"]
    assert [fence.content for fence in parts.fences] == [token.content for token in tokens if token.type == "fence"]
    assert len(parts.headings) == counted["heading_open"]
    assert parts.counts["bullets"] == counted["bullet_list_open:item"]
    assert parts.counts["numbered_items"] == counted["ordered_list_open:item"]
    assert parts.counts["tables"] == counted["table_open"]
    assert (parts.counts["links"], parts.counts["images"]) == (counted["link_open"], counted["image"])


@pytest.mark.parametrize(
    ("condition", "limits", "good"),
    [
        ("characters", f"-{len(TEXT)}", 1.0),
        ("characters", f"-{len(TEXT) - 1}", 0.0),
        ("words", "10-", 1.0),
        ("words", "100-", 0.0),
        ("lines", 8, 0.0),
        ("lines", 7, 1.0),
        ("paragraphs", 1, 1.0),
        ("bullets", "2", 1.0),
        ("bullets", "3-5", 0.0),
        ("numbered_items", 0, 1.0),
        ("headings", "1-", 1.0),
        ("code_blocks", 1, 1.0),
        ("tables", "1-", 0.0),
        ("links", 0, 1.0),
        ("markdown", "none", 0.0),
        ("markdown", "some", 1.0),
        ("closed_fences", True, 1.0),
        ("code_languages", ["python"], 0.0),
        ("code_languages", ["SQL"], 1.0),
        ("required_headings", ["answer"], 1.0),
        ("required_headings", ["answer", "Sources"], 0.0),
        ("starts_with", "# ", 1.0),
        ("ends_with", "```", 1.0),
        ("ends_with", ".", 0.0),
    ],
)
def test_each_condition_holds_or_not(condition, limits, good):
    found = score(TEXT, **{condition: limits})
    assert found.values["format"] == good
    assert bool(found.evidence.message) == (not good)


def test_sentences_are_those_of_the_run():
    assert score("It is seven. It ends at nine.", sentences=2).values["format"] == 1.0


def test_a_rows_own_conditions_replace_the_parameters_one_by_one():
    found = score(TEXT, {"format": {"bullets": 5}}, bullets=2, tables=0)
    assert found.values == {"format": 0.0, "conditions_met": 0.5}
    assert found.evidence.message == "bullets 5: there are 2"
    assert score(TEXT, {"format": '{"bullets": "1-"}'}).values["format"] == 1.0


@pytest.mark.parametrize("own", [{"bulets": 1}, {"bullets": "x"}, "{", {"metric_threshold": 1}])
def test_conditions_that_are_none_leave_the_row_unscored(own):
    assert isinstance(score(TEXT, {"format": own}).values["format"], Unscored)


def test_a_row_without_conditions_is_not_applicable():
    for own in (None, "", "pdf", 5, [1]):
        assert isinstance(score(TEXT, {"format": own}).values["format"], NotApplicable)


@pytest.mark.parametrize("limits", ["x", "5-3", "-", "", "1-2-3", -4.5])
def test_limits_that_are_none_are_refused(limits):
    with pytest.raises(UsageError, match=r"format\.words"):
        Format.parameters.build("format", {"words": limits})


@pytest.mark.parametrize("text", ["#" * 300_000, "- " * 300_000, "|-" * 300_000, "[" * 300_000, "```\n" * 100_000,
                                  "* " * 3 + "*" * 300_000 + "a", "**a" * 100_000, "[a](" * 100_000,
                                  "```" + "a" * 300_000 + "`", "```" + " " * 300_000 + "`", "~" * 300_000 + "`",
                                  "`" * 300_000 + "a`", "# a" + " " * 300_000 + "a",
                                  "# " * 150_000 + "a"])  # fmt: skip
def test_absurd_markdown_is_counted_fast(text):
    started = time.process_time()
    markdown_parts(text)
    assert time.process_time() - started < 5
