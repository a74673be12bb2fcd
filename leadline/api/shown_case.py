"""One case of a run for people: its texts, each model's answer, and every score with what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.api.first_screen import HERE, label_of
from leadline.evaluators.ground import ErrorCode, UsageError, visible
from leadline.tasks.ground.numbers import figure
from leadline.tasks.ground.templating import render
from leadline.tasks.runs.show import case
from leadline.tasks.store.store import Run, Store


@dataclass(frozen=True)
class ShownCase:
    """A case; a notebook shows it as a page, ``print`` as text.

    Attributes:
        values: All that is known of it, as ``leadline show RUN --case KEY --json`` prints it.
    """

    values: Mapping[str, Any]

    @property
    def answers(self) -> Sequence[Mapping[str, Any]]:
        """The models' answers, each with its scores."""
        answers: Sequence[Mapping[str, Any]] = self.values["answers"]
        return answers

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        return render(
            HERE,
            "case.html",
            case=self.values,
            texts=_texts_of_case(self.values),
            answers=[
                {
                    "model": answer["model"],
                    "texts": _texts_of_answer(answer),
                    "scores": [_score(score) for score in answer["scores"]],
                }
                for answer in self.answers
            ],
        )

    def _lines(self) -> Iterator[str]:
        yield visible(f"Case {self.values['case_key']} (run {self.values['run']})")
        yield from _labelled(_texts_of_case(self.values))
        for answer in self.answers:
            yield f"\n{visible(answer['model'])}"
            yield from _labelled(_texts_of_answer(answer))
            for score in map(_score, answer["scores"]):
                told = (score["label"], score["value"], score["verdict"], score["why"])
                yield visible("  " + "  ".join(part for part in told if part))


def shown_case(store: Store, run: Run, key: str, model: str | None = None) -> ShownCase:
    """Return a case of a run.

    Args:
        key: Key of the case.
        model: Only the answer of this model.

    Raises:
        UsageError: The run's dataset has no such case, or nothing of this model on it.
    """
    found = case(store, run, key)
    if model is not None:
        known = [answer["model"] for answer in found["answers"]]
        if model not in known:
            raise UsageError(
                f"Model {model!r} did not answer case {key!r}.",
                hint=f"Its models: {', '.join(known)}.",
                code=ErrorCode.DATA_NO_MODEL,
            )
        found = found | {"answers": [answer for answer in found["answers"] if answer["model"] == model]}
    return ShownCase(found)


def _texts_of_case(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    texts = [("Question", values["question"]), *(("Expected", each) for each in values["expected_answers"])]
    return [(label, text) for label, text in (*texts, ("Condition", values["condition"])) if text is not None]


def _texts_of_answer(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    chunks = [(f"Context {number}", each["content"]) for number, each in enumerate(answer["retrieved_context"], 1)]
    texts = [("Answer", answer["actual_answer"]), ("Error", answer["error"]), *chunks]
    return [(label, text) for label, text in texts if text is not None]


def _labelled(texts: Sequence[tuple[str, str]]) -> Iterator[str]:
    for label, text in texts:
        yield f"{label:<10}" + f"\n{'':<10}".join(visible(line) for line in text.splitlines() or [""])


def _score(score: Mapping[str, Any]) -> dict[str, str]:
    """Return a score in words; what it rests on in one line."""
    evidence = score.get("evidence") or {}
    flags = [flag["message"] for flag in score.get("flags") or []]
    why = [score["reason"], score.get("error"), evidence.get("message"), *flags]
    verdict = "" if score["passes"] is None else "pass" if score["passes"] else "fail"
    trial = f" (trial {score['trial']})" if score["trial"] else ""
    return {
        "label": label_of(score["evaluator"], score["metric"]) + trial,
        "value": "" if score["value"] is None else figure(score["value"]),
        "threshold": "" if score["threshold"] is None else figure(score["threshold"]),
        "verdict": score["status"].replace("_", " ") if score["value"] is None else verdict,
        "why": " · ".join(str(each) for each in why if each),
    }
