"""`infd inspect` of a folder, as mounted from a volume or an image."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from inference_operator.cli.main import main
from inference_operator.jobs.result import Cause, Failure
from inference_operator.model_files.files import MAX_BYTES, MAX_INDEX_BYTES
from inference_operator.model_files.folder import inspect_folder
from inference_operator.model_files.listing import MAX_FILES
from inference_operator.models.checkpoint import INDEX, SINGLE, WeightFormat, Weights, weights_of_files
from inference_operator.models.entry import Entry, entry_document, entry_facts, entry_of
from inference_operator.models.facts import Kernel, ModelFacts
from inference_operator.models.model import model_facts
from tests.testing.gguf_files import write_model

QUANTIZATION = "hf_quant_config.json"
CONFIG = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 1000,
    "intermediate_size": 128,
}
Model = Callable[..., Path]


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """A folder with these files; a number stands for a file of as many bytes, of which none is written."""

    def write(**files: object) -> Path:
        for name, content in {"config.json": CONFIG, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, int):
                path.touch()
                os.truncate(path, content)
            else:
                path.write_text(content if isinstance(content, str) else json.dumps(content))
        return tmp_path

    return write


def found(folder: Path) -> Entry:
    answer = inspect_folder(folder, name="pvc://models/a", source="pvc://models/a")
    assert isinstance(answer, Entry), answer.message
    return answer


def refused(folder: Path) -> tuple[Cause, str]:
    answer = inspect_folder(folder, name="pvc://models/a", source="pvc://models/a")
    assert isinstance(answer, Failure)
    return answer.cause, f"{answer.why.field}: {answer.why.problem}"


def test_inspecting_a_folder_reads_only_the_sizes_of_weight_files(model: Model) -> None:
    folder = model(**{"model.safetensors": 2**40, ".git/model.safetensors": 1, "tokenizer.json": "{}"})
    entry = found(folder)
    assert entry.weights
    assert (entry.weights.total_bytes, entry.config, entry.commit) == (2**40, CONFIG, "")
    assert entry.source == "pvc://models/a:config.json"


def test_only_weight_files_that_the_index_names_are_counted_in_a_folder(model: Model) -> None:
    index = {"weight_map": {"a": "1.safetensors", "b": "deep/2.safetensors"}}
    entry = found(model(**{INDEX: index, "1.safetensors": 3, "deep/2.safetensors": 4, "other.safetensors": 100}))
    assert entry.weights
    assert entry.weights.total_bytes == 7


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/hostname"])
def test_an_index_that_names_files_outside_the_folder_is_refused(model: Model, name: str) -> None:
    folder = model(**{INDEX: {"weight_map": {"a": name}}, "1.safetensors": 3})
    (folder.parent / "outside.safetensors").touch()
    assert refused(folder) == (Cause.UNUSABLE, f"weights: `{name}` is named by `{INDEX}` and is not there.")


def test_symbolic_links_of_the_hub_cache_are_followed(model: Model, tmp_path: Path) -> None:
    folder = model(**{"blobs/1": 5}) / "snapshot"
    folder.mkdir()
    (folder / "config.json").symlink_to(tmp_path / "config.json")
    (folder / "model.safetensors").symlink_to(tmp_path / "blobs/1")
    (folder / "dangling.safetensors").symlink_to(tmp_path / "nosuch")
    entry = found(folder)
    assert entry.weights
    assert entry.weights.total_bytes == 5


@pytest.mark.parametrize("own", [None, {"quant_method": "fp8"}])
def test_the_quantization_file_of_modelopt_is_read_if_the_config_has_no_quantization(model: Model, own: object) -> None:
    config = {**CONFIG, "quantization_config": own} if own else CONFIG
    theirs = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "exclude_modules": ["a"] * 999}}
    entry = found(model(**{"config.json": config, QUANTIZATION: theirs, "model.safetensors": 7}))
    facts = model_facts(entry.config, entry.weights)
    assert isinstance(facts, ModelFacts)
    assert facts.quantization.kernel is (Kernel.FP8 if own else Kernel.NVFP4)


def test_a_folder_that_cannot_be_inspected_is_reported_with_the_cause(model: Model, tmp_path: Path) -> None:
    assert refused(tmp_path / "nosuch") == (Cause.NOT_FOUND, "pvc://models/a: there is no such directory.")
    assert refused(model()) == (Cause.UNUSABLE, "weights: no safetensors or GGUF file is there.")
    (tmp_path / "config.json").unlink()
    assert refused(tmp_path) == (Cause.UNUSABLE, "pvc://models/a: has no `config.json`.")


def test_a_gguf_model_is_what_its_header_says_also_beside_a_config(model: Model, tmp_path: Path) -> None:
    folder = model(**{"mmproj-F16.gguf": 2**20})
    size = write_model(folder / "model-Q8_0.gguf").stat().st_size
    entry = found(folder)
    assert entry.weights
    assert (entry.weights.total_bytes, entry.weights.origin) == (size, "model-Q8_0.gguf")
    assert entry.source == "pvc://models/a:model-Q8_0.gguf"
    facts = entry_facts(entry)
    assert isinstance(facts, ModelFacts)
    assert (facts.architecture, facts.weight_bytes, facts.side.has_chat_template) == ("llama", size, True)
    (tmp_path / "model-Q4_K_M.gguf").touch()
    problem = "weights: there are 2 GGUF models, and which one to load is unknown."
    assert refused(tmp_path) == (Cause.UNUSABLE, problem)


def test_one_of_several_gguf_models_is_chosen_by_its_file(tmp_path: Path) -> None:
    for name in ("q4.gguf", "q8-00001-of-00002.gguf"):
        write_model(tmp_path / name)
    (tmp_path / "q8-00002-of-00002.gguf").write_bytes(bytes(1000))
    first = (tmp_path / "q8-00001-of-00002.gguf").stat().st_size
    for name, size in (("q4.gguf", first), ("q8-00001-of-00002.gguf", first + 1000)):
        entry = inspect_folder(tmp_path, name="m", source="m", file=name)
        assert isinstance(entry, Entry)
        assert entry.weights == Weights(size, name, file_format=WeightFormat.GGUF)
    missing = inspect_folder(tmp_path, name="m", source="m", file="q2.gguf")
    assert isinstance(missing, Failure)
    assert missing.message == "m: has no file `q2.gguf`. Check the path in `spec.model.source`."


def test_a_header_that_is_longer_than_what_is_read_first_is_read_on(tmp_path: Path) -> None:
    write_model(tmp_path / "large.gguf", tokens=100_000)
    facts = entry_facts(found(tmp_path))
    assert isinstance(facts, ModelFacts)
    assert facts.vocabulary == 100_000


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "header: ends too early."),
        (b"GGUF", "header: ends too early."),
        (b"hello" * 10, "header: is no GGUF file of version 2 or 3."),
    ],
)
def test_a_gguf_file_without_a_header_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "model.gguf").write_bytes(content)
    assert refused(tmp_path) == (Cause.UNUSABLE, f"model.gguf: {said}")


def test_a_gguf_model_of_which_a_part_is_missing_is_refused(tmp_path: Path) -> None:
    write_model(tmp_path / "q4-00001-of-00002.gguf")
    assert refused(tmp_path) == (Cause.UNUSABLE, "weights: of 2 parts of the GGUF model 1 is there.")
    (tmp_path / "q4-00002-of-00002.gguf").write_bytes(b"0" * 1000)
    assert found(tmp_path).weights


def test_the_small_files_of_a_reranker_are_read(model: Model) -> None:
    reranker = {**CONFIG, "architectures": ["XLMRobertaForSequenceClassification"], "max_position_embeddings": 8194}
    folder = model(
        **{
            "config.json": {**reranker, "position_embedding_type": "absolute"},
            "model.safetensors": 700_000,
            "tokenizer_config.json": {"model_max_length": 8192},
        }
    )
    facts = entry_facts(found(folder))
    assert isinstance(facts, ModelFacts)
    assert (facts.is_pooling, facts.context, facts.side.has_chat_template) == (True, 8192, False)


def test_the_small_files_of_an_embedding_model_are_read(model: Model) -> None:
    folder = model(
        **{
            "config.json": {**CONFIG, "architectures": ["Qwen3ForCausalLM"], "max_position_embeddings": 32768},
            "model.safetensors": 700_000,
            "modules.json": [{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}],
            "sentence_bert_config.json": {"max_seq_length": 512},
        }
    )
    facts = entry_facts(found(folder))
    assert isinstance(facts, ModelFacts)
    assert (facts.is_pooling, facts.context, facts.side.sentence_max_length) == (True, 512, 512)


@pytest.mark.parametrize("template", ["chat_template.jinja", "chat_template.json", "tekken.json", "tokenizer.model.v3"])
def test_a_chat_template_is_found_and_generation_limits_are_read(model: Model, template: str) -> None:
    limits = {"generation_config.json": {"max_new_tokens": 2048}}
    facts = entry_facts(found(model(**{"model.safetensors": 700_000, template: "{}", **limits})))
    assert isinstance(facts, ModelFacts)
    assert (facts.side.has_chat_template, facts.side.max_new_tokens, facts.is_pooling) == (True, 2048, False)


@pytest.mark.parametrize(
    ("name", "document", "kernel"),
    [
        ("quantize_config.json", {"bits": 4, "group_size": 128, "desc_act": False}, Kernel.GPTQ),
        ("quant_config.json", {"w_bit": 4, "q_group_size": 128, "version": "GEMM"}, Kernel.AWQ),
    ],
)
def test_a_quantization_file_beside_the_config_is_read(
    model: Model, name: str, document: object, kernel: Kernel
) -> None:
    facts = entry_facts(found(model(**{"model.safetensors": 400_000, name: document})))
    assert isinstance(facts, ModelFacts)
    assert facts.quantization.kernel is kernel


def test_a_file_instead_of_a_folder_is_refused_with_a_cure(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    said = "pvc://models/a: is a file, not a directory."
    assert refused(tmp_path / "model.gguf") == (Cause.NOT_FOUND, said)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("config.json", MAX_BYTES),
        (QUANTIZATION, MAX_BYTES),
        ("tokenizer_config.json", MAX_BYTES),
        (INDEX, MAX_INDEX_BYTES),
    ],
)
def test_a_file_that_is_too_large_is_not_read(model: Model, name: str, limit: int) -> None:
    folder = model(**{"model.safetensors": 7, name: limit + 1})
    assert refused(folder) == (Cause.UNUSABLE, f"{name}: is larger than {limit // 2**20} MiB.")


def test_a_folder_with_too_many_files_is_refused_as_a_model(model: Model) -> None:
    folder = model(**{"model.safetensors": 7})
    for number in range(MAX_FILES):
        (folder / str(number)).touch()
    assert refused(folder) == (Cause.UNUSABLE, f"pvc://models/a: has more than {MAX_FILES:,} files.")


def infd(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["inspect", *arguments])
    return int(end.value.code or 0)


def test_the_inspect_command_reads_a_volume_at_its_mount_path(
    model: Model, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = model(**{"qwen/config.json": CONFIG, "qwen/model.safetensors": 2**30})
    assert infd("pvc://models/qwen", "--folder", str(folder), "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["model"] == "pvc://models/qwen"
    assert infd(str(tmp_path / "qwen")) == 0
    assert "weights       1.00 GiB (model.safetensors; counted from config.json: 0.0 GiB)" in capsys.readouterr().out
    assert infd(str(tmp_path / "qwen"), "-o", "yaml") == 0
    assert "gib: 1.0" in capsys.readouterr().out


def test_infd_fit_accepts_the_output_of_inspect(
    model: Model, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, answer = model(**{"config.json": CONFIG, "model.safetensors": 2**30}), tmp_path / "answer.json"
    assert infd(str(folder), "--to", str(answer)) == 0
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(["fit", "--config", str(answer), "--gpu", "L4", "-o", "json", "-v"])
    assert end.value.code == 0
    assert json.loads(capsys.readouterr().out)["items"][0]["weightsGiB"] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("pvc://models/qwen",), "is a volume in a cluster. Set --folder to its mount path."),
        (("gs://bucket",), "has no scheme that this version knows."),
        (("/nosuch",), "/nosuch: there is no such directory."),
    ],
)
def test_the_inspect_command_names_what_it_cannot_read(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert infd(*arguments) == 1
    said = capsys.readouterr()
    assert words in said.err
    assert said.out == ""


def test_unquantized_files_smaller_than_their_config_are_accepted_with_their_own_size(model: Model) -> None:
    """A model whose layers differ, for example after pruning: the config's fields describe the largest ones."""
    folder = model(**{"config.json": LARGE})
    write_header(folder / "model.safetensors", {"a": ("BF16", 2 * 10**8), "positions": ("I64", 64)})
    entry = found(folder)
    facts = entry_facts(entry_of(entry_document(entry)))
    assert isinstance(facts, ModelFacts)
    assert facts.weight_bytes == HALF_BYTES
    assert facts.weight_bytes < 0.7 * LARGE_BYTES


@pytest.mark.parametrize("header", [{"a": ("I32", 10**8), "scales": ("F16", 10**7)}, {}], ids=["quantized", "none"])
def test_files_smaller_than_their_config_are_refused_if_their_types_do_not_explain_it(
    model: Model, header: dict[str, tuple[str, int]]
) -> None:
    folder = model(**{"config.json": LARGE})
    write_header(folder / "model.safetensors", header)
    cause, problem = refused(folder)
    assert cause is Cause.UNUSABLE
    assert "is missing, although the files have only" in problem


def test_the_largest_file_of_an_index_in_a_subfolder_tells_whether_weights_are_quantized(model: Model) -> None:
    index = {"weight_map": {"embedding": "w/a.safetensors", "layers": "w/b.safetensors"}}
    folder = model(**{"config.json": LARGE, INDEX: index, "adapter.safetensors": 1, "w/a.safetensors": 1})
    write_header(folder / "w/a.safetensors", {"embedding": ("BF16", 10**7)}, size=10**7)
    write_header(folder / "w/b.safetensors", {"layers": ("I32", 10**8)})
    assert refused(folder)[0] is Cause.UNUSABLE
    write_header(folder / "w/b.safetensors", {"layers": ("BF16", 10**8)})
    assert found(folder).weights == Weights(HALF_BYTES + 10**7, f"2 files of {INDEX}", plain=True)


LARGE = {**CONFIG, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 8}
LARGE_BYTES = 3 * 10**9
HALF_BYTES = 17 * 10**8


def write_header(path: Path, tensors: dict[str, tuple[str, int]], size: int = HALF_BYTES) -> None:
    """A safetensors file with only its header; the rest is a hole."""
    header = json.dumps({name: {"dtype": kind, "shape": [count]} for name, (kind, count) in tensors.items()}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(path, size)


def test_pickle_weights_need_consent_and_are_then_counted_without_files_of_training(
    model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {"pytorch_model-1.bin": 300_000, "pytorch_model-2.bin": 120_352}
    folder = model(**sizes, **{"training_args.bin": 5_000, "other.pt": 9_000})
    assert refused(folder) == (
        Cause.PICKLE,
        "weights: they are pickle files, which can run code when they are loaded.",
    )
    with pytest.raises(SystemExit, match="1"):
        main(["inspect", str(folder), "-o", "json"])
    assert "spec.model.allowPickle: true" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="0"):
        main(["inspect", str(folder), "--allow-pickle", "-o", "json"])
    entry = entry_of(json.loads(capsys.readouterr().out))
    assert entry.weights == weights_of_files(sizes, allow_pickle=True)
    assert (entry.weights.total_bytes, entry.weights.origin) == (sum(sizes.values()), "2 .bin files")


def test_safetensors_win_over_pickle_files_as_in_the_engine(model: Model) -> None:
    answer = inspect_folder(model(**{SINGLE: 420_352, "pytorch_model.bin": 9}), name="a", source="a", allow_pickle=True)
    assert isinstance(answer, Entry)
    assert answer.weights is not None
    assert answer.weights.origin == SINGLE


@pytest.mark.parametrize("target", ["/proc/self/environ", "../../outside", "/"])
def test_a_model_of_a_volume_with_a_link_out_of_it_is_refused(model: Model, target: str) -> None:
    """Else an engine would take its own environment for a chat template, and show it to who asks."""
    folder = model(**{"volume/model/config.json": CONFIG, "volume/model/model.safetensors": 1000, "outside": "a"})
    inside = folder / "volume" / "model"
    (inside / "chat_template.jinja").symlink_to(target)
    answer = inspect_folder(inside, name="oci://a/b:1", source="oci://a/b:1", volume=folder / "volume")
    assert isinstance(answer, Failure)
    assert answer.message == (
        "oci://a/b:1: has a link that leads out of the volume. An engine would read files of its own container"
        " through it. Replace the link by the file itself."
    )


def test_a_link_to_another_directory_of_the_volume_is_refused(model: Model) -> None:
    """That directory could have a link out of the volume, which nobody would look at."""
    folder = model(**{"good/config.json": CONFIG, "good/model.safetensors": 1000, "evil/a": "b"})
    (folder / "evil" / "default.jinja").symlink_to("/proc/self/environ")
    (folder / "good" / "additional_chat_templates").symlink_to("../evil")
    answer = inspect_folder(folder / "good", name="a", source="a", volume=folder)
    assert isinstance(answer, Failure)
    assert "has a link that leads out of the volume" in answer.message


@pytest.mark.parametrize("named", ["pytorch_model.bin", "w/a.safetensors"])
def test_an_index_that_leads_to_pickle_files_needs_consent(model: Model, named: str) -> None:
    files = {INDEX: {"weight_map": {"x": named}}, "pytorch_model.bin": 1000, "w/a.safetensors": 1000}
    cause, problem = refused(model(**files))
    assert cause is Cause.PICKLE
    assert "an engine would load the pickle files beside it" in problem


def test_a_model_in_the_layout_of_the_hubs_cache_may_link_to_other_folders_of_its_volume(model: Model) -> None:
    folder = model(**{"blobs/0": json.dumps(CONFIG), "snapshots/1/model.safetensors": 1000})
    (folder / "snapshots" / "1" / "config.json").symlink_to("../../blobs/0")
    answer = inspect_folder(folder / "snapshots" / "1", name="a", source="a", volume=folder)
    assert isinstance(answer, Entry), answer.message


def parts_of(folder: Path, *, stated: int = 2) -> tuple[Path, Path]:
    """Two parts of a GGUF model, whose first one says how many there are."""
    first, second = (folder / f"a-Q3_K_S-0000{number}-of-00002.gguf" for number in (1, 2))
    write_model(first, add_uint16=("split.count", stated))
    second.write_bytes(bytes(1000))
    return first, second


def said_of(folder: Path) -> str:
    found = inspect_folder(folder, name="m", source="m")
    return "" if isinstance(found, Entry) else found.message


def test_gguf_models_in_folders_are_named(tmp_path: Path) -> None:
    for name in ("Q3_K_S", "Q8_0"):
        (tmp_path / name).mkdir()
        parts_of(tmp_path / name)
    assert said_of(tmp_path) == (
        "weights: its 2 GGUF models are in folders. Name one at the end of `spec.model.source`, for example"
        " `/Q3_K_S/a-Q3_K_S-00001-of-00002.gguf`."
    )
    one = inspect_folder(tmp_path, name="m", source="m", file="Q3_K_S/a-Q3_K_S-00001-of-00002.gguf")
    assert isinstance(one, Entry), one


def test_gguf_parts_in_a_file_of_their_own_name_are_whole_and_one_alone_is_not(tmp_path: Path) -> None:
    _, second = parts_of(tmp_path)
    assert said_of(tmp_path) == ""
    second.unlink()
    assert "of 2 parts of the GGUF model 1 is there" in said_of(tmp_path)


def test_gguf_parts_that_were_joined_by_cat_are_refused(tmp_path: Path) -> None:
    first, second = parts_of(tmp_path)
    (tmp_path / "a.gguf").write_bytes(first.read_bytes() + second.read_bytes())
    first.unlink()
    second.unlink()
    assert "says that the model has 2 parts, and by its name it has 1." in said_of(tmp_path)
    assert "llama-gguf-split --merge" in said_of(tmp_path)


def test_a_gguf_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    file = write_model(tmp_path / "a.gguf")
    content = file.read_bytes()
    file.write_bytes(content[:-2000])
    assert f"a.gguf: file: has {len(content) - 2000:,} bytes of at least" in said_of(tmp_path)


@pytest.mark.parametrize("name", ["a.gguf-split-a", "a.gguf.part1of2", "a.Q4.gguf-part-b", "a.gguf.001"])
def test_pieces_of_a_gguf_file_are_no_model(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(bytes(100))
    assert "Join the pieces with `cat`" in said_of(tmp_path)
    (tmp_path / "Q4").mkdir()
    (tmp_path / "Q4" / "whole.gguf").write_bytes(b"x")
    assert "for example `/Q4/whole.gguf`" in said_of(tmp_path)


LARGE_3 = {
    "dim": 7168,
    "n_layers": 61,
    "head_dim": 128,
    "hidden_dim": 16384,
    "n_heads": 128,
    "n_kv_heads": 128,
    "vocab_size": 131072,
    "tied_embeddings": False,
    "max_position_embeddings": 294912,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "kv_lora_rank": 512,
    "v_head_dim": 128,
    "yarn": {"original_max_position_embeddings": 8192, "factor": 36, "apply_scale": False},
    "moe": {
        "route_every_n": 1,
        "first_k_dense_replace": 3,
        "num_experts": 128,
        "num_experts_per_tok": 4,
        "expert_hidden_dim": 4096,
        "num_shared_experts": 1,
    },
}
"""What is public of Mistral Large 3."""


def mistral(folder: Path, params: object, *, gib: float = 1.0) -> ModelFacts:
    (folder / "params.json").write_text(json.dumps(params))
    (folder / "tekken.json").write_text("{}")
    with (folder / "consolidated-00001-of-00001.safetensors").open("wb") as weights:
        weights.truncate(int(gib * 2**30))
    found = inspect_folder(folder, name="m", source="m")
    assert isinstance(found, Entry), found
    assert found.source == "m:params.json"
    facts = entry_facts(found)
    assert isinstance(facts, ModelFacts), facts
    return facts


def test_a_model_in_mistrals_own_format_is_what_vllm_reads(tmp_path: Path) -> None:
    facts = mistral(tmp_path, LARGE_3, gib=1260)
    assert (facts.architecture, facts.context, facts.layers) == ("MistralLarge3ForCausalLM", 294912, 61)
    assert facts.uses_mla
    assert facts.experts
    assert (facts.experts.count, facts.experts.top_k, facts.experts.intermediate_size) == (128, 4, 4096)
    assert facts.weight_bytes == 1260 * 2**30


def test_images_and_windows_of_mistrals_own_format_are_read(tmp_path: Path) -> None:
    small = {"dim": 1024, "n_layers": 26, "n_heads": 8, "n_kv_heads": 4, "head_dim": 128, "hidden_dim": 4096}
    vision = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
    seen = mistral(tmp_path, {**small, "vocab_size": 131072, "vision_encoder": vision}, gib=2)
    assert (seen.architecture, seen.has_vision, seen.context) == ("PixtralForConditionalGeneration", True, 128000)
    windows = mistral(tmp_path, {**small, "vocab_size": 131072, "sliding_window": [None, 4096]}, gib=1.5)
    assert {(group.attention.value, group.layers) for group in windows.groups} == {("full", 13), ("sliding", 13)}
    quantized = mistral(tmp_path, {**small, "vocab_size": 131072, "quantization": {"qformat_weight": "fp8_e4m3"}})
    assert quantized.quantization.kernel is Kernel.FP8


def test_params_without_their_weights_are_no_model(tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text("{}")
    (tmp_path / SINGLE).write_bytes(bytes(100))
    assert "has no `config.json`" in said_of(tmp_path)
    (tmp_path / SINGLE).rename(tmp_path / "consolidated.safetensors")
    assert "config.json.num_hidden_layers: is missing" in said_of(tmp_path)
    (tmp_path / "params.json").write_text("[]")
    assert "params.json: is no JSON object" in said_of(tmp_path)
