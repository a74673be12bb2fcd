"""The configuration of a jury: several judges of ``leadline.toml`` that answer as one.

::

    [judges.panel]
    jury = ["small", "strict", "other"]
    combine = "majority"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from leadline.evaluators.data.row import Json
from leadline.evaluators.settings.judge_config import JudgeConfig

Combining: TypeAlias = Literal["majority", "mean", "dawid-skene"]

LEAST_MEMBERS: Final = 2

_Share = Annotated[float, Field(gt=0, lt=1)]


class MemberWeight(BaseModel):
    """The weight of one member in one metric: two rates where rows pass or fail, a share of the mean for numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    member: str = Field(min_length=1, description="Name of the judge.")
    passes: _Share | None = Field(None, description="Share of the good answers that it passes.")
    catches: _Share | None = Field(None, description="Share of the bad answers that it fails.")
    weight: Annotated[float, Field(gt=0, le=1)] | None = Field(None, description="Its share of a mean.")

    @model_validator(mode="after")
    def _check(self) -> MemberWeight:
        if (self.passes is None) != (self.catches is None) or (self.passes is None) == (self.weight is None):
            raise ValueError("needs passes and catches, or a weight")
        if self.passes is not None and self.catches is not None and self.passes + self.catches <= 1:
            raise ValueError("passes good answers no more often than bad ones: leave this judge out")
        return self


class MetricWeights(BaseModel):
    """The weights of all members in one metric, as they were learned from labels."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str = Field(min_length=1, description="EVALUATOR.METRIC.")
    good: _Share | None = Field(None, description="Share of good answers, where rows pass or fail.")
    members: tuple[MemberWeight, ...] = Field(description="The members' weights.")

    @model_validator(mode="after")
    def _check(self) -> MetricWeights:
        by_votes = {each.passes is not None for each in self.members}
        if by_votes != {self.good is not None}:
            raise ValueError("needs good with passes and catches, or weights alone")
        return self

    def of(self, member: str) -> MemberWeight:
        """Return the weight of a member."""
        return next(each for each in self.members if each.member == member)


class JuryConfig(JudgeConfig):
    """Several judges that answer as one. Each is asked by itself; what they say is combined row by row.

    What it inherits of a single judge (sampling, limits, prices) is that of its members.
    """

    members: tuple[JudgeConfig, ...] = Field(min_length=LEAST_MEMBERS, description="The judges.")
    combine: Combining = Field("majority", description="How their verdicts become one.")
    weights: tuple[MetricWeights, ...] = Field((), description="What labels taught of the members, for dawid-skene.")

    @field_validator("weights", mode="before")
    @classmethod
    def _from_tables(cls, value: Any) -> Any:
        """Take the tables of ``leadline.toml``, a metric's name before each."""
        if not isinstance(value, Mapping):
            return value
        return [_weights_of(metric, table) for metric, table in sorted(value.items())]

    @model_validator(mode="after")
    def _check(self) -> JuryConfig:
        names = [member.key for member in self.members]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"has the judge {twice[0][:40]!r} twice")
        if any(isinstance(member, JuryConfig) for member in self.members):
            raise ValueError("has a jury as a member: name its judges instead")
        if (self.combine == "dawid-skene") != bool(self.weights):
            raise ValueError(
                'has weights, which are for combine = "dawid-skene"'
                if self.weights
                else 'learns its weights first: with combine = "majority", leadline judges train NAME --labels SET'
            )
        for each in self.weights:
            if sorted(weight.member for weight in each.members) != sorted(names):
                raise ValueError(f"has weights of {each.metric[:80]} for other judges than its own: train it again")
        return self

    @property
    def quorum(self) -> int:
        """The least number of members whose verdicts make one: more than half."""
        return len(self.members) // 2 + 1

    def weights_for(self, evaluator: str) -> MetricWeights | None:
        """Return what labels taught of the members in an evaluator, ``None`` where nobody labelled it."""
        return next((each for each in self.weights if each.metric.rpartition(".")[0] == evaluator), None)

    def identity(self) -> dict[str, Json]:
        """Return what of the jury a verdict depends on."""
        return self.identity_with([member.identity() for member in self.members])

    def identity_with(self, members: list[dict[str, Json]]) -> dict[str, Json]:
        """Return the jury's identity; the order of its members is no part of it.

        Args:
            members: The identities of its members, in their order.
        """
        learned = {
            member.key: {each.metric: each.of(member.key).model_dump(exclude={"member"}) for each in self.weights}
            for member in self.members
        }
        parts: list[dict[str, Json]] = [
            {"judge": identity, "weights": learned[member.key]}
            for member, identity in zip(self.members, members, strict=True)
        ]
        return {
            "kind": "jury",
            "model": self.model,
            "combine": self.combine,
            "good": {each.metric: each.good for each in self.weights},
            "members": sorted(parts, key=str),
        }

    def api_key(self) -> str | None:
        """Check that the key of every member is set; a jury has none of its own.

        Raises:
            UsageError: The variable that should hold one is not set.
        """
        for member in self.members:
            member.api_key()
        return None


def judge_from(record: Mapping[str, Any]) -> JudgeConfig:
    """Return a judge or a jury from its record.

    Args:
        record: Its fields, as ``model_dump`` returned them.
    """
    if "members" not in record:
        return JudgeConfig(**record)
    return JuryConfig(**record)


def members_of(judge: JudgeConfig) -> tuple[JudgeConfig, ...]:
    """Return the judges that are asked: the members of a jury, or the judge itself."""
    return judge.members if isinstance(judge, JuryConfig) else (judge,)


def _weights_of(metric: str, table: Any) -> Any:
    """Return the weights of a metric as the file has them: ``good``, and ``judges`` by name."""
    if not isinstance(table, Mapping) or not isinstance(table.get("judges"), Mapping):
        raise ValueError(f"needs the weights of its judges in {metric[:80]}: judges.NAME = ...")
    members = [
        {"member": name, **(value if isinstance(value, Mapping) else {"weight": value})}
        for name, value in table["judges"].items()
    ]
    return {name: value for name, value in table.items() if name != "judges"} | {"metric": metric, "members": members}
