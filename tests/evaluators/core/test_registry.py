"""Evaluators are found by id, in the project and in other packages."""

import subprocess
import sys
import textwrap

import pytest

from leadline.evaluators.core import FAMILIES, Metric, RowEvaluator, Spec, all_evaluators, get, register, registry
from leadline.evaluators.data import RowField
from leadline.evaluators.ground import UsageError
from leadline.evaluators.summarization.bleu import Bleu

MODULE = """
from leadline.evaluators.core.base import RowEvaluator
from leadline.evaluators.core.spec import Spec
from leadline.evaluators.core.spec import Metric
from leadline.evaluators.core.registry import register
from leadline.evaluators.data.row import Row, RowField, RowScore

@register
class Shouting(RowEvaluator):
    spec = Spec(id="acme.shouting", name="Shouting", family="generation", inputs=(RowField.ACTUAL_ANSWER,),
                metrics=(Metric("shouting", "Shouting", higher_is_better=False, primary=True),))

    def score_row(self, row, ctx):
        return RowScore({"shouting": float(row.actual_answer.isupper())})
"""


def test_evaluators_are_sorted_by_id_and_live_in_known_families():
    known = all_evaluators()
    assert list(known) == sorted(known)
    assert all(evaluator.spec.id == name for name, evaluator in known.items())
    assert {evaluator.spec.family for evaluator in known.values()} <= set(FAMILIES)


def test_one_is_found_by_id():
    assert get("bleu") is Bleu


def test_one_is_found_by_the_module_that_mentions_its_id():
    sources = registry._sources()
    own = {id_: kind.__module__ for id_, kind in all_evaluators().items() if kind.__module__ in sources}
    assert len(own) > 60
    assert [id_ for id_, module in own.items() if f'"{id_}"' not in sources[module]] == []


def test_finding_one_imports_no_other_family():
    code = (
        "import sys; from leadline.evaluators.core.registry import FAMILIES, find; find('bleu');"
        "print([family for family in FAMILIES if f'leadline.evaluators.{family}' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['summarization']"


@pytest.mark.parametrize(("typed", "hint"), [("bleau", "Did you mean bleu"), ("zzzzzz", "leadline evaluators list")])
def test_an_unknown_id_is_refused_with_advice(typed, hint):
    with pytest.raises(UsageError, match=f"no evaluator called '{typed}'.*{hint}"):
        get(typed)


def test_two_evaluators_of_one_id_are_refused(monkeypatch):
    monkeypatch.setattr(registry, "_registered", dict(all_evaluators()))

    class Other(RowEvaluator):
        spec = Spec("bleu", "Other", "generation", (RowField.ACTUAL_ANSWER,), (Metric("m", "M", True, primary=True),))

        def score_row(self, row, ctx):
            raise AssertionError("never scored")

    with pytest.raises(UsageError, match=r"Two evaluators are called 'bleu'.*summarization\.bleu\.Bleu.*Other"):
        register(Other)
    assert register(Bleu) is Bleu


def test_another_package_brings_evaluators_by_an_entry_point(tmp_path):
    (tmp_path / "acme_evaluators.py").write_text(MODULE, encoding="utf-8")
    metadata = tmp_path / "acme-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text("[leadline.evaluators]\nacme = acme_evaluators\n", encoding="utf-8")
    code = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        from leadline.evaluators.core.registry import get
        from leadline.evaluators.core.base import EvalContext
        from leadline.evaluators.data.row import Row
        print(get("acme.shouting")().score([Row("c", "m", actual_answer="HO")], EvalContext())[0].values)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "{'shouting': 1.0}", done.stderr


def test_an_evaluator_may_run_under_several_names() -> None:
    tone, length = get("byop#tone"), get("byop#length")
    assert (tone.spec.id, length.spec.id) == ("byop#tone", "byop#length")
    assert tone.spec.name.endswith("(tone)")
    assert tone.spec.metrics == get("byop").spec.metrics
    assert get("byop#tone") is tone
    assert "byop#tone" not in all_evaluators()
    assert issubclass(tone, get("byop"))


@pytest.mark.parametrize("id_", ["byop#", "byop#a b", "byop#a#b", "#a", "no_such#a", f"byop#{'x' * 41}"])
def test_a_name_that_is_none_is_refused(id_: str) -> None:
    with pytest.raises(UsageError, match="There is no evaluator called"):
        get(id_)
