"""Headers of GGUF files: those that a library writes, and bytes of strangers."""

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.models.checkpoint import WeightFormat, Weights
from inference_operator.models.config import UnreadableError
from inference_operator.models.facts import Kernel, ModelFacts
from inference_operator.models.gguf import (
    GgufHeader,
    Items,
    ShortHeaderError,
    config_of,
    damage,
    gguf_header,
    has_chat_template,
)
from inference_operator.models.model import model_facts
from inference_operator.models.slim import slim
from tests.testing.gguf_files import write_model


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_model(tmp_path_factory.mktemp("gguf") / "model-q8.gguf").read_bytes()


def facts_of(header: GgufHeader, size: int = 10_000) -> ModelFacts:
    weights = Weights(size, "model-q8.gguf", file_format=WeightFormat.GGUF)
    facts = model_facts(slim(config_of(header), weights), weights)
    assert isinstance(facts, ModelFacts)
    return facts


def test_the_facts_of_a_file_are_those_that_its_header_states(content: bytes) -> None:
    header = gguf_header(content)
    facts = facts_of(header)
    assert (facts.architecture, facts.layers, facts.hidden_size, facts.vocabulary) == ("llama", 2, 64, 300)
    assert (facts.context, facts.heads, facts.kv_heads, facts.intermediate_size) == (4096, 4, 2, 128)
    assert (facts.quantization.kernel, facts.quantization.bits) == (Kernel.OTHER, 8.0)
    assert (facts.weight_bytes, facts.weights_from) == (10_000, "model-q8.gguf")
    assert has_chat_template(header)
    assert header.has_head


def test_weights_that_are_not_quantized_have_the_type_of_the_file(tmp_path: Path) -> None:
    facts = facts_of(gguf_header(write_model(tmp_path / "a.gguf", quantized=False).read_bytes()))
    assert (facts.quantization.kernel, facts.element_bytes) == (Kernel.NONE, 2)


def test_a_number_of_each_layer_counts_with_the_largest(tmp_path: Path) -> None:
    written = write_model(tmp_path / "a.gguf", add_head_count_kv=[1, 4], add_key_length=32, add_value_length=16)
    (group,) = facts_of(gguf_header(written.read_bytes())).groups
    assert (group.layers, group.kv_heads, group.elements) == (2, 4, 48)


def test_long_lists_of_strangers_are_not_kept(tmp_path: Path) -> None:
    written = write_model(tmp_path / "a.gguf", add_head_count_kv=[1] * 4000)
    header = gguf_header(written.read_bytes())
    assert isinstance(header.metadata["llama.attention.head_count_kv"], tuple)
    written = write_model(tmp_path / "b.gguf", add_head_count_kv=[1] * 5000)
    assert header.metadata.keys() == gguf_header(written.read_bytes()).metadata.keys()
    assert gguf_header(written.read_bytes()).metadata["llama.attention.head_count_kv"] == Items(5000)


def test_experts_are_counted(tmp_path: Path) -> None:
    written = write_model(
        tmp_path / "a.gguf", "qwen3moe", add_expert_count=8, add_expert_used_count=2, add_expert_feed_forward_length=32
    )
    facts = facts_of(gguf_header(written.read_bytes()))
    assert facts.experts
    assert (facts.experts.count, facts.experts.top_k, facts.experts.intermediate_size) == (8, 2, 32)


def test_tensors_may_begin_at_a_smaller_multiple_than_the_usual_one() -> None:
    """`general.alignment` is any multiple of 8 (ggml, `docs/gguf.md`)."""
    text = b"general.alignment"
    start = b"GGUF" + struct.pack("<IQQQ", 3, 1, 1, len(text)) + text + struct.pack("<II", 4, 8)
    header = start + struct.pack("<Q8sIQIQ", 8, b"a.weight", 1, 4, 0, 0)
    file = header + bytes(-len(header) % 8) + bytes(16)
    assert damage(gguf_header(file), 1, len(file)) is None
    assert damage(gguf_header(file), 1, len(header) + 15) is not None


@pytest.mark.parametrize("missing", ["add_block_count", "add_embedding_length", "add_head_count"])
def test_a_missing_number_is_named(tmp_path: Path, missing: str) -> None:
    nothing: Any = {missing: None}
    written = write_model(tmp_path / "a.gguf", **nothing)
    with pytest.raises(UnreadableError) as refused:
        config_of(gguf_header(written.read_bytes()))
    assert refused.value.why.field.startswith("header.llama.")


def test_every_cut_of_a_header_is_short_and_no_other_error(content: bytes) -> None:
    length = next(size for size in range(len(content)) if _is_whole(content[:size]))
    for size in range(0, length, 7):
        with pytest.raises(ShortHeaderError):
            gguf_header(content[:size])


def _is_whole(content: bytes) -> bool:
    try:
        gguf_header(content)
    except ShortHeaderError:
        return False
    return True


@given(data=st.data())
def test_changed_bytes_of_strangers_give_a_header_or_one_of_two_errors(content: bytes, data: st.DataObject) -> None:
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(4, len(changed) - 8))
        changed[at : at + 8] = struct.pack("<Q", data.draw(st.integers(0, 2**64 - 1)))
    try:
        document = config_of(gguf_header(bytes(changed)))
    except (ShortHeaderError, UnreadableError):
        return
    model_facts(document, Weights(len(changed), "a.gguf", file_format=WeightFormat.GGUF))


@given(st.binary(max_size=200))
def test_bytes_after_the_mark_of_a_file_give_no_other_error(content: bytes) -> None:
    with pytest.raises((ShortHeaderError, UnreadableError)):
        config_of(gguf_header(b"GGUF" + struct.pack("<I", 3) + content))


def text(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content


def header(content: bytes, *, tensors: int = 0, entries: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, entries) + content


def nested(depth: int) -> bytes:
    """A header with one list that contains another one, and so on."""
    return header(text(b"a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * depth + bytes(12), entries=1)


def tensor_of(dimensions: int) -> bytes:
    numbers = struct.pack(f"<I{dimensions}Q", dimensions, *[1] * dimensions)
    return header(text(b"output.weight") + numbers + struct.pack("<IQ", 0, 0), tensors=1)


@pytest.mark.parametrize(
    ("limited", "larger"),
    [
        (nested(3), nested(4)),
        (tensor_of(8), tensor_of(9)),
    ],
    ids=["lists in lists", "dimensions"],
)
def test_what_no_model_has_is_refused(limited: bytes, larger: bytes) -> None:
    gguf_header(limited)
    with pytest.raises(UnreadableError):
        gguf_header(larger)


@pytest.mark.parametrize("count", ["tensors", "entries"])
def test_a_number_of_entries_that_no_model_has_is_refused_before_any_is_read(count: str) -> None:
    with pytest.raises(ShortHeaderError):
        gguf_header(header(b"", **{count: 2**20}))
    with pytest.raises(UnreadableError, match="more than 1,048,576 entries"):
        gguf_header(header(b"", **{count: 2**20 + 1}))
