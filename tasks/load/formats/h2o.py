"""H2O Sonar and H2O Eval Studio: LLM datasets, test labs, and test suites."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, ClassVar, Final

from leadline.tasks.load.columns import Columns
from leadline.tasks.load.faults import Place
from leadline.tasks.load.formats.base import DatasetFormat, Values
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.readers import Item
from leadline.tasks.load.readers.json_records import MODELS
from leadline.tasks.load.values import (
    ValueFault,
    anything,
    chunks,
    expected,
    filled,
    key,
    listed,
    money,
    number,
    text,
    texts,
)

_MODEL: Final[Columns] = {
    "key": ("key", key),
    "name": ("name", filled),
    "llm_model_name": ("llm", filled),
}

_OWN_NAMES: Final = frozenset(
    {"model_key", "test_key", "test_case_key", "output_condition", "output_constraints", "corpus"}
)
"""Fields that other formats with ``input`` do not have."""

_REGEXP: Final = "REGEXP:"
_HOST_ERROR: Final = "MODEL HOST INTERNAL ERROR"
_OLD_HOST_ERRORS: Final = ("INTERNAL ERROR", "LLM HOST INTERNAL ERROR")


def is_host_error(output: str) -> bool:
    """Return whether an output is the text that H2O Sonar writes when the model's host failed.

    The marker is the one that Sonar's evaluators look for (h2o_sonar 3.3, ``Evaluator._is_internal_err_answer``).
    """
    return _HOST_ERROR in output or output.startswith(_OLD_HOST_ERRORS)


def condition_of(constraints: list[Any]) -> str | None:
    """Return H2O's constraints as a condition: the outer list is AND, an inner list OR, ``REGEXP:x`` a regexp.

    Raises:
        ValueFault: An element is neither a text nor a list of texts.
    """
    from leadline.evaluators.text.conditions import quote, quote_regexp

    def term(constraint: Any) -> str:
        value = text(constraint)
        return quote_regexp(value.removeprefix(_REGEXP)) if value.startswith(_REGEXP) else quote(value)

    groups = []
    for constraint in constraints:
        terms = [term(one) for one in (constraint if isinstance(constraint, list) else [constraint]) if one != ""]
        if terms:
            groups.append(" OR ".join(terms) if len(terms) == 1 or len(constraints) == 1 else f"({' OR '.join(terms)})")
    return " AND ".join(groups) or None


@register
class H2oDataset(DatasetFormat):
    """Reads an LLM dataset, or the results of an H2O evaluation, which repeat it row by row."""

    name = "h2o-dataset"
    title = "H2O dataset"
    recognised_by = "a list `inputs` or `results`; `input` beside `model_key`, `test_key`, `output_condition`, …"
    question_column = "input"
    answer_column = "actual_output"
    condition_column = "output_condition"
    needs: ClassVar[tuple[str, ...]] = ("input", "actual_output")
    sections: ClassVar[tuple[str, ...]] = ("inputs", "results")
    columns: ClassVar[Columns] = {
        "key": ("key", key),
        "test_case_key": ("case", key),
        "model_key": ("model", key),
        "input": ("question", filled),
        "context": ("context", chunks),
        "corpus": ("corpus", listed),
        "categories": ("categories", texts),
        "relationships": ("relationships", anything),
        "expected_output": ("expected", texts),
        "output_constraints": ("constraints", anything),
        "output_condition": ("condition", filled),
        "actual_output": ("answer", text),
        "actual_duration": ("duration_s", number),
        "cost": ("cost_usd", money),
    }

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are rows of an H2O dataset."""
        if sections & {"inputs", "results"}:
            return 0.95
        return 0.4 if "input" in names and names & _OWN_NAMES else 0

    def convert_record(self, item: Item, record: dict[str, Any]) -> None:
        """Stage a row; a document's ``models`` are described."""
        if item.section == MODELS:
            self._list_model(item.place, record)
        else:
            super().convert_record(item, record)

    def refine(self, place: Place, values: Values, others: dict[str, Any]) -> None:
        """Prefer ``test_case_key``, make a condition of constraints, and separate errors of the host from answers."""
        case = values.pop("key", None)
        if values.get("case") is None and case is not None:
            values["case"] = case
        constraints = values.pop("constraints", None)
        if constraints and values.get("condition") is None:
            try:
                if not isinstance(constraints, list):
                    constraints = [constraints]
                values["condition"] = condition_of(constraints)
            except ValueFault as error:
                self.faults.add(place, "output_constraints", str(error))
        answer = values.get("answer")
        if answer is not None and is_host_error(answer):
            values["error"] = values.pop("answer")
        corpus = values.pop("corpus", None)
        if corpus not in (None, [""]):
            others["corpus"] = corpus
        for column in [name for name, value in others.items() if value in ("", [])]:
            del others[column]

    def _list_model(self, place: Place, record: dict[str, Any]) -> None:
        values, _ = self.read(place, record, _MODEL)
        if values.get("key") is not None:
            name = values.get("llm") or values.get("name")
            self.models.describe(place, values["key"], name, None, listed=True)


@register
class H2oLab(H2oDataset):
    """Reads a test lab: the rows of its completed dataset. The raw dataset, which has no answers, is left out."""

    name = "h2o-lab"
    title = "H2O test lab"
    recognised_by = "objects `dataset` or `raw_dataset`"
    question_column = ""
    sections = ("dataset.inputs", "dataset.results", "raw_dataset.inputs", "raw_dataset.results")

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are rows of a test lab."""
        return float(not sections.isdisjoint(cls.sections))

    def convert(self, item: Item) -> None:
        """Stage one row of the completed dataset."""
        if not item.section.startswith("raw_dataset."):
            super().convert(item)


@register
class H2oSuite(H2oDataset):
    """Reads the cases of a test suite's tests; as a dataset it is refused, since it has no answers.

    Each case gets the documents of its test as metadata ``corpus``, and the test's categories before its own.
    """

    name = "h2o-suite"
    title = "H2O test suite"
    recognised_by = "a list `tests`; has no answers, so it can only be [collected](collect.md)"
    question_column = ""
    condition_column = "condition"
    needs = ()
    is_flat = False
    sections = ("tests",)
    columns: ClassVar[Columns] = {
        "key": ("key", key),
        "prompt": ("question", filled),
        "categories": ("categories", texts),
        "condition": ("condition", filled),
        "constraints": ("constraints", anything),
        "expected_output": ("expected", texts),
        "relationships": ("relationships", anything),
    }

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are tests of a suite."""
        return float("tests" in sections)

    def convert_record(self, item: Item, record: dict[str, Any]) -> None:
        """Stage the cases of one test."""
        if not self.cases_only:
            self.faults.stop(
                None,
                "",
                "this is an H2O test suite: it has questions, but no answers. Collect the models' answers first "
                "(leadline collect)",
            )
        cases = record.get("test_cases")
        if type(cases) is not list:
            self.faults.add(item.place, "test_cases", str(expected("a list of test cases", cases)))
            return
        of_test, _ = self.read(item.place, {"categories": record.get("categories")}, self.flat)
        metadata = {"corpus": record.get("documents"), "test_key": record.get("key")}
        for index, case in enumerate(cases):
            inner = Place(item.place.row, f"{item.place.part}test_cases[{index + 1}].")
            if type(case) is not dict:
                self.faults.add(inner, "", str(expected("an object", case)))
                continue
            values, others = self.read(inner, case, self.flat)
            self.refine(inner, values, others)
            categories = dict.fromkeys([*of_test.get("categories", ()), *values.get("categories", ())])
            of_case = {name: value for name, value in metadata.items() if value} | others
            self.stage_case(inner, values | {"categories": list(categories)}, of_case)
