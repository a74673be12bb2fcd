"""A judge that runs here: a tiny random model, made on the spot. It says nonsense, but says it properly."""

from __future__ import annotations

import asyncio
import json
import weakref
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.judge_client.calls import JudgeRefused, Reply
from leadline.evaluators.judge_client.client import client_for, identity_of
from leadline.evaluators.judge_client.local_judge import LocalTransport, _Request
from leadline.evaluators.judge_client.transport import Refused
from leadline.evaluators.settings import JudgeConfig, Settings
from tests.support.judges.scripted_judge import question
from tests.support.models.tiny_checkpoints import make_gpt2

pytestmark = pytest.mark.slow

TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant:"
)
SETTINGS = Settings(device="cpu")


@pytest.fixture(scope="module")
def model(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_gpt2(tmp_path_factory.mktemp("judge") / "gpt2")


@pytest.fixture(scope="module")
def chat_model(model: Path) -> Path:
    """The same with a chat template that knows no system message."""
    import shutil

    folder = Path(shutil.copytree(model, model.with_name("chat")))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": TEMPLATE}))
    return folder


def judge(folder: Path, **changes: Any) -> JudgeConfig:
    return JudgeConfig(**({"kind": "local", "model": str(folder), "max_tokens": 8} | changes))


def ask(config: JudgeConfig, *texts: str, max_tokens: int = 8) -> list[Reply]:
    async def main() -> list[Reply]:
        transport = LocalTransport(SETTINGS)
        messages = [[{"role": "system", "content": "Judge."}, {"role": "user", "content": text}] for text in texts]
        return list(await asyncio.gather(*(transport.send(config, sent, None, max_tokens) for sent in messages)))

    return asyncio.run(main())


@pytest.mark.parametrize("kind", ["model", "chat_model"])
def test_questions_answered_in_one_batch_get_the_replies_that_they_get_alone(
    kind: str, request: pytest.FixtureRequest
) -> None:
    config = judge(request.getfixturevalue(kind))
    texts = ["yes", "Is the harbour deep?", "no " * 12, "?", "tide " * 5]
    together = ask(config, *texts)
    alone = [ask(config, text)[0] for text in texts]
    assert [reply.text for reply in together] == [reply.text for reply in alone]
    assert [reply.input_tokens for reply in together] == [reply.input_tokens for reply in alone]
    assert len({reply.text for reply in together}) > 1


def test_a_reply_that_fills_its_room_is_truncated_and_its_tokens_are_counted(model: Path) -> None:
    (reply,) = ask(judge(model), "yes", max_tokens=2)
    assert (reply.finish_reason, reply.output_tokens, reply.cost_usd) in (("length", 2, 0.0), ("stop", 1, 0.0))


async def test_a_question_that_does_not_fit_is_refused_and_costs_no_other_its_reply(model: Path) -> None:
    transport = LocalTransport(SETTINGS)
    sent = [[{"role": "user", "content": text}] for text in ("short", "long " * 5_000, "brief")]
    first, second, third = await asyncio.gather(
        *(transport.send(judge(model), messages, None, 8) for messages in sent), return_exceptions=True
    )
    assert isinstance(first, Reply)
    assert isinstance(third, Reply)
    assert isinstance(second, Refused)
    assert "tokens" in second.message


def ask_together(config: JudgeConfig, *texts: str) -> list[str]:
    """Return the replies to questions that are all in one batch."""

    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        sent = [[{"role": "user", "content": text}] for text in texts]
        batch = [_Request(config, messages, 8, loop.create_future(), loop) for messages in sent]
        replies = LocalTransport(SETTINGS)._answer(batch)
        return [reply.text if isinstance(reply, Reply) else str(reply) for reply in replies]

    return asyncio.run(main())


def test_questions_that_exceed_the_memory_are_asked_in_halves_once_the_failed_calls_tensors_are_gone(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from transformers import GenerationMixin

    texts = ["yes", "no " * 12, "?", "tide " * 5]
    expected = ask_together(judge(model), *texts)
    generate = GenerationMixin.generate
    tried: list[int] = []
    held: list[weakref.ref[Any]] = []

    def with_little_memory(self: Any, input_ids: Any, **others: Any) -> Any:
        assert not any(tensor() is not None for tensor in held), "the memory of the failed call is still taken"
        tried.append(len(input_ids))
        if len(input_ids) > 1:
            activations = torch.zeros(1)
            held.append(weakref.ref(activations))
            raise torch.OutOfMemoryError("CUDA out of memory")
        return generate(self, input_ids=input_ids, **others)

    monkeypatch.setattr(GenerationMixin, "generate", with_little_memory)
    assert ask_together(judge(model), *texts) == expected
    assert tried == [4, 2, 1, 1, 2, 1, 1]


async def test_weights_that_are_not_here_refuse_every_call(tmp_path: Path) -> None:
    config = JudgeConfig(kind="local", model="nobody/nothing", revision="0" * 40)
    client = client_for(config, settings=SETTINGS, ledger=None, budget=None)
    for text in ("one", "two"):
        with pytest.raises(JudgeRefused, match="nobody/nothing"):
            await client.ask(question(text))


def test_a_local_judge_is_known_by_its_weights_not_by_where_they_lie(model: Path, tmp_path: Path) -> None:
    import shutil

    moved = Path(shutil.copytree(model, tmp_path / "moved"))
    assert identity_of(judge(model), SETTINGS) == identity_of(judge(moved), SETTINGS)
    (moved / "generation_config.json").write_text("{}")
    changed = json.loads((moved / "config.json").read_text()) | {"n_head": 1}
    (moved / "config.json").write_text(json.dumps(changed))
    assert identity_of(judge(model), SETTINGS) != identity_of(judge(moved), SETTINGS)
