"""Hostile texts in a comment: shown, and nothing comes of them on any forge."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from leadline.plugins.ci.change_summary import block, code, sentence

HOSTILE = (
    "@harbour/all please look",
    "see https://evil.example/x?y=1 or www.evil.example",
    "mail a@evil.example",
    "fixes #12, !34, ~bug, %5, &6, GH-12, $3",
    "/close",
    "<img src=x onerror=alert(1)> <!-- leadline-ci --> </details>",
    "[click](https://evil.example) ![x](https://evil.example/pixel.png) <https://evil.example>",
    "| a | b |\n| --- | --- |\n| 1 | 2 |",
    "```\nout of the block\n```",
    "`` ` ```` `",
    "\n/assign @me\n\n# Heading\n> quote\n- item",
    "right\u202eto left \x1b[31m red \x00",
    "$$x$$ :smile: *bold* __under__ ~~gone~~ \\",
    "",
)
SIGNS = st.text(st.sampled_from("`@#!~%&$<>[]()|*_\\/:.-+=\n\r \tahtpsw1{}\"'\u202e\x1b"), max_size=60)
ACTING = re.compile(
    r"(?<![\w`])@[A-Za-z0-9]|[#!~%&]\w|https?://|www\.\w|\w@\w+\.\w|\bGH-\d|\$\S.*\$|^/\w", re.MULTILINE
)
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def tokens(source: str) -> list[Token]:
    flat: list[Token] = []
    for token in MARKDOWN.parse(source):
        flat += [token, *(token.children or [])]
    return flat


def seen(source: str) -> str:
    """Return the text that Markdown leaves outside of code, which a forge looks through for names and links."""
    return "".join(token.content for token in tokens(source) if token.type == "text")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_sentence_calls_nobody_and_links_to_nothing(text: str) -> None:
    source = f"It says {sentence(text)}"
    kinds = {token.type for token in tokens(source)}
    assert kinds <= {"paragraph_open", "paragraph_close", "inline", "text", "text_special"}
    shown = "".join(token.content for token in tokens(source) if token.type in ("text", "text_special"))
    assert not ACTING.search(shown), shown
    assert "\n" not in source


@pytest.mark.parametrize("text", HOSTILE)
def test_code_stays_code_in_a_line_and_in_a_table(text: str) -> None:
    source = f"| a | b |\n| --- | --- |\n| {code(text)} | end |"
    kinds = [token.type for token in tokens(source)]
    assert kinds.count("td_open") == 2
    assert kinds.count("code_inline") == 1
    assert not {"link_open", "image", "html_inline"} & set(kinds)
    assert seen(source) == "abend"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_block_holds_all_of_its_text(text: str) -> None:
    source = f"<details>\n\n{block(text)}\n\n</details>\n\nafter"
    kinds = [token.type for token in MARKDOWN.parse(source)]
    assert kinds == ["html_block", "fence", "html_block", "paragraph_open", "inline", "paragraph_close"]


@given(text=SIGNS)
def test_no_text_gets_out(text: str) -> None:
    said = f"It says {sentence(text)} and {code(text)} so"
    kinds = {token.type for token in tokens(said)}
    assert kinds <= {"paragraph_open", "paragraph_close", "inline", "text", "text_special", "code_inline"}
    shown = "".join(token.content for token in tokens(said) if token.type in ("text", "text_special"))
    assert not ACTING.search(shown), shown
    assert [token.type for token in MARKDOWN.parse(block(text))] == ["fence"]


def test_a_secret_of_this_process_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARBOUR_API_KEY", "quay-secret-0815")
    for show in (sentence, code, block):
        assert "quay-secret-0815" not in show("the key is quay-secret-0815")


def test_texts_are_cut() -> None:
    assert len(code("x" * 999)) <= 122
    assert "399 more characters" in block("x" * 999)
    assert len(sentence("x" * 9999)) < 700
