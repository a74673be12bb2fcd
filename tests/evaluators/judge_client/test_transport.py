"""The wire: what of a server's figures is believed."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.ground import LONGEST
from leadline.evaluators.judge_client.calls import Reply
from leadline.evaluators.judge_client.litellm_transport import LiteLLMTransport
from leadline.evaluators.judge_client.providers import remote_transport
from leadline.evaluators.judge_client.transport import MOST_TOKENS, Transient, plausible, seconds_of
from leadline.evaluators.settings import JudgeConfig
from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, serving

MESSAGES = [{"role": "user", "content": "Is it so?"}]


class Counting(JudgeEndpoint):
    """A judge that tells of each call the usage that comes next in a list."""

    def __init__(self, usages: Sequence[dict[str, Any] | None]) -> None:
        super().__init__()
        self.usages = usages

    def envelope(self, question: Question, text: str, finish_reason: str) -> dict[str, Any]:
        return super().envelope(question, text, finish_reason) | {"usage": self.usages[question.number]}


@pytest.mark.slow
@pytest.mark.parametrize("wire", [remote_transport, lambda config: LiteLLMTransport()], ids=["direct", "litellm"])
async def test_a_servers_count_of_tokens_is_believed_only_if_it_can_be_true(wire: Any) -> None:
    told = {
        (100, 20): (100, 20),
        (100, 0): (100, 0),
        (-100, 20): (None, 20),
        (10**30, 20): (None, 20),
        (100, -(10**30)): (100, None),
        (0, 0): (None, None),
    }
    usages = [{"prompt_tokens": sent, "completion_tokens": said, "total_tokens": 1} for sent, said in told]
    with serving(Counting([*usages, None])) as endpoint:
        config = JudgeConfig(model="openai/gpt-4o-mini", api_base=endpoint.url)
        transport = wire(config)
        replies = [await transport.send(config, MESSAGES, None, 8) for _ in endpoint.usages]
    assert [(reply.input_tokens, reply.output_tokens) for reply in replies] == [*told.values(), (None, None)]
    costs = [reply.cost_usd for reply in replies]
    assert costs[:2] == pytest.approx([100 * 0.15e-6 + 20 * 0.6e-6, 100 * 0.15e-6])
    assert costs[2:] == [None] * 5


@pytest.mark.slow
async def test_what_litellm_takes_to_get_ready_is_not_taken_for_a_judges_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from litellm import ModelResponse

    async def slow(**sent: Any) -> Any:
        await asyncio.sleep(0.2)
        return ModelResponse(choices=[{"message": {"role": "assistant", "content": "yes"}}])

    transport, config = LiteLLMTransport(), JudgeConfig(model="openai/judge", timeout_s=0.05)
    monkeypatch.setattr(transport._api, "acompletion", slow)
    assert (await transport.send(config, MESSAGES, None, 8)).text == "yes"
    with pytest.raises(Transient, match="no reply within"):
        await transport.send(config, MESSAGES, None, 8)


@given(st.one_of(st.integers(), st.floats(), st.booleans(), st.none(), st.text()))
def test_figures_that_cannot_be_true_are_unknown(figure: Any) -> None:
    reply = plausible(Reply("yes", "stop", figure, figure, figure))
    for tokens in (reply.input_tokens, reply.output_tokens):
        assert tokens is None or (type(tokens) is int and 0 <= tokens <= MOST_TOKENS)
    assert reply.cost_usd is None or (type(reply.cost_usd) is float and 0 <= reply.cost_usd < math.inf)


def test_what_can_be_true_stays_as_it_is() -> None:
    reply = Reply("yes", "length", 0, MOST_TOKENS, 0.25, 1.5, 3)
    assert plausible(reply) == reply


def test_the_reason_for_an_end_is_a_short_text_that_can_be_kept() -> None:
    assert plausible(Reply("yes", "a lone \ud800")).finish_reason == "a lone \ufffd"
    assert len(plausible(Reply("yes", "x" * 10_000)).finish_reason) == LONGEST


def test_the_reason_for_an_end_shows_what_a_terminal_would_obey() -> None:
    assert plausible(Reply("yes", "\x1b[31mstop")).finish_reason == "␛[31mstop"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("2.5", 2.5), ("0", 0.0), ("3600", 3600.0), ("1e30", None), ("-5", None), ("nan", None), ("inf", None),
        ("9" * 5_000, None), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("", None), ("\x1b", None),
    ]
)  # fmt: skip
def test_a_pause_that_no_server_can_mean_is_not_asked_for(header: str, seconds: float | None) -> None:
    assert seconds_of(header) == seconds
