"""Names of models are refused before a call exactly where LiteLLM would refuse every call."""

from __future__ import annotations

import pytest

from leadline.evaluators.ground import UsageError
from leadline.evaluators.judge_client import budget, litellm_transport, providers
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.judge_client.providers import check_provider
from leadline.evaluators.settings import JudgeConfig, JuryConfig
from leadline.tasks.plan import cost


def named(model: str, api_base: str | None = None) -> JudgeConfig:
    return JudgeConfig(model=model, api_base=api_base)


@pytest.mark.parametrize("model", ["gpt-4o-mini", "openai/anything", "anthropic/claude-of-tomorrow"])
def test_names_in_its_table_pass_without_importing_it(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    def imported() -> None:
        raise AssertionError("LiteLLM was imported")

    monkeypatch.setattr(providers, "litellm", imported)
    check_provider(named(model))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "api_base"),
    [
        ("hosted_vllm/mine", None),
        ("github_copilot/gpt-4o", None),
        ("ft:gpt-4o-mini:acme::7", None),
        ("acme/llama:" + "0" * 64, None),
        ("llama", "https://api.groq.com/openai/v1"),
    ],
)
def test_what_only_litellm_itself_knows_passes(model: str, api_base: str | None) -> None:
    check_provider(named(model, api_base))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "api_base"), [("nosuch", None), ("nosuch/model", None), ("nosuch/model", "http://localhost:8000/v1")]
)
def test_a_name_without_a_provider_is_refused_in_one_line(model: str, api_base: str | None) -> None:
    with pytest.raises(Exception, match="LLM Provider NOT provided"):
        litellm_transport.litellm().get_llm_provider(model, api_base=api_base)
    with pytest.raises(UsageError, match=f"LiteLLM knows no provider for the model '{model}'") as refused:
        check_provider(named(model, api_base))
    assert "\n" not in str(refused.value)


def test_openais_usual_models_have_litellms_prices_without_litellm_too(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = budget.openai_prices()
    table = budget._table()
    assert "gpt-4o-mini" in cost
    for model, known in cost.items():
        assert known == pytest.approx({name: table[model][name] for name in known}), model
    monkeypatch.setattr(budget, "_table", dict)
    assert budget.price(named("openai/gpt-4o-mini")) == pytest.approx((1.5e-7, 6e-7))
    assert budget.price(named("openai/of-tomorrow")) is None


def jury(*models: str) -> JuryConfig:
    """Return a jury that is itself called after a model with a price."""
    members = tuple(JudgeConfig(key=model.partition("/")[2], model=model) for model in models)
    return JuryConfig(key="panel", model="openai/gpt-4o", members=members)


def test_a_jury_costs_what_its_judges_cost_together() -> None:
    both = jury("openai/gpt-4o-mini", "openai/gpt-4.1")
    assert budget.cost(both, 1_000, 100) == pytest.approx(
        sum(budget.cost(member, 1_000, 100) or 0 for member in both.members)
    )
    assert budget.price(jury("openai/gpt-4o-mini", "openai/of-tomorrow")) is None


def test_a_limit_of_cost_asks_for_the_price_of_the_jurys_judge_that_has_none() -> None:
    limits = Limits(cost_usd=2.0)
    cost.require_judge_price(jury("openai/gpt-4o-mini", "openai/gpt-4.1"), limits)
    with pytest.raises(UsageError, match="price of the judge 'openai/of-tomorrow' is unknown") as refused:
        cost.require_judge_price(jury("openai/gpt-4o-mini", "openai/of-tomorrow"), limits)
    assert "[judges.of-tomorrow]" in refused.value.hint


def test_a_limit_of_cost_without_a_price_names_the_extra_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as refused:
        cost.require_judge_price(named("openai/of-tomorrow"), Limits(cost_usd=2.0))
    assert refused.value.hint.startswith("Install the table of all prices: pip install 'leadline[judge]'. Or: Write")
