"""`infd download --adapter`: from a folder and from a hub, what it checks, and what it leaves on the claim."""

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inference_operator.jobs.download_result import StoredAdapter, parsed_adapter
from inference_operator.jobs.result import Cause, Failure
from tests.testing.forked_infd import ForkedInfd
from tests.testing.hub import COMMIT, REPOSITORY, Hub, serving

CONFIG = {"peft_type": "LORA", "r": 8, "lora_alpha": 8, "target_modules": ["q_proj"]}
Copy = Callable[..., StoredAdapter | Failure]
NAME = "base_model.model.model.layers.0.self_attn.q_proj"


def weights(**field: object) -> bytes:
    """The weights, with these fields in the header of each tensor instead."""
    shapes = {f"{NAME}.lora_A.weight": [8, 4], f"{NAME}.lora_B.weight": [4, 8]}
    header, end = dict[str, Any](), 0
    for name, shape in shapes.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + 128], **field}
        end += 128
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(end)


def made(folder: Path, config: object = None, content: bytes | None = None) -> Path:
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG if config is None else config))
    (folder / "adapter_model.safetensors").write_bytes(weights() if content is None else content)
    return folder


@pytest.fixture
def copy(infd_server: ForkedInfd) -> Copy:
    """Run `infd download --adapter` with a claim."""

    def run(claim: Path, *arguments: str, **env: str) -> StoredAdapter | Failure:
        own = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        claim.mkdir(exist_ok=True)
        message = claim.with_suffix(".message")
        words = ("download", "--adapter", *arguments, f"--cache={claim}", f"--to={message}")
        done = infd_server.run(*words, env={**own, **env})
        assert "Traceback" not in done.stderr, done.stderr
        found = parsed_adapter(message.read_text())
        assert found is not None
        assert done.returncode == isinstance(found, Failure)
        return found

    return run


def from_folder(copy: Copy, tmp_path: Path, folder: Path) -> StoredAdapter | Failure:
    return copy(tmp_path / "claim", "pvc://files/a", f"--folder={folder}")


def test_an_adapter_of_a_folder_is_copied_under_the_digest_of_its_content(copy: Copy, tmp_path: Path) -> None:
    folder = made(tmp_path / "a")
    (folder / "optimizer.pt").write_bytes(b"x" * 1000)
    first = from_folder(copy, tmp_path, folder)
    assert isinstance(first, StoredAdapter)
    assert (first.facts.rank, first.facts.hidden_size, first.facts.layers) == (8, 4, 1)
    snapshot = tmp_path / "claim/adapters/hub/pvc--files--a/snapshots" / first.commit
    assert sorted(one.name for one in snapshot.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    assert (snapshot / "adapter_model.safetensors").read_bytes() == weights()
    (folder / "adapter_config.json").write_text(json.dumps({**CONFIG, "lora_alpha": 16}))
    second = from_folder(copy, tmp_path, folder)
    assert isinstance(second, StoredAdapter)
    assert second.commit != first.commit
    assert snapshot.is_dir(), "engines may have it"


def test_an_adapter_of_a_hub_leaves_the_model_of_the_same_repository_incomplete(copy: Copy, tmp_path: Path) -> None:
    files = {"adapter_config.json": json.dumps(CONFIG).encode(), "config.json": b"{}"}
    large = {"adapter_model.safetensors": weights(), "model.safetensors": b"w" * 4000}
    claim = tmp_path / "claim"
    with serving(Hub(large=large, files=files)) as hub:
        found = copy(claim, f"hf://{REPOSITORY}", HF_ENDPOINT=hub.endpoint, HF_HOME=str(tmp_path / "home"))
    assert isinstance(found, StoredAdapter)
    assert found.commit == COMMIT
    snapshot = claim / f"adapters/hub/models--org--model/snapshots/{COMMIT}"
    assert sorted(one.name for one in snapshot.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    assert not (claim / "hub").exists()
    assert not (claim / "complete").exists()


@pytest.mark.parametrize(
    ("config", "content", "problem"),
    [
        ({**CONFIG, "use_dora": True}, None, "DoRA"),
        ([], None, "no JSON object"),
        (CONFIG, b"", "damaged"),
        (CONFIG, weights()[:-10], "damaged"),
        (CONFIG, struct.pack("<Q", 2**60) + b"{}", "damaged"),
        (CONFIG, struct.pack("<Q", 2) + b"[]", "damaged"),
    ],
)
def test_an_adapter_that_no_engine_can_load_is_refused(
    copy: Copy, tmp_path: Path, config: object, content: bytes | None, problem: str
) -> None:
    found = from_folder(copy, tmp_path, made(tmp_path / "a", config, content))
    assert isinstance(found, Failure)
    assert found.cause is Cause.UNUSABLE
    assert problem in found.message


def test_a_folder_without_an_adapter_is_refused(copy: Copy, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = from_folder(copy, tmp_path, tmp_path / "empty")
    assert isinstance(found, Failure)
    assert "has no `adapter_config.json`" in found.message
    assert isinstance(from_folder(copy, tmp_path, tmp_path / "nosuch"), Failure)


def test_pickled_weights_need_consent(copy: Copy, tmp_path: Path) -> None:
    folder = made(tmp_path / "a")
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    found = from_folder(copy, tmp_path, folder)
    assert isinstance(found, Failure)
    assert found.cause is Cause.PICKLE
    allowed = copy(tmp_path / "claim", "pvc://files/a", f"--folder={folder}", "--allow-pickle")
    assert isinstance(allowed, StoredAdapter)


def test_a_link_out_of_the_folder_is_refused(copy: Copy, tmp_path: Path) -> None:
    folder, secret = made(tmp_path / "a"), tmp_path / "secret"
    secret.write_text("{}")
    (folder / "adapter_config.json").unlink()
    (folder / "adapter_config.json").symlink_to(secret)
    found = from_folder(copy, tmp_path, folder)
    assert isinstance(found, Failure)
    assert "link" in found.message


@pytest.mark.parametrize(
    "field",
    [
        *({"shape": shape} for shape in ([1e400, 4], [-8, -4], [10**4000, 4], ["8", 4], 8)),
        *({"data_offsets": offsets} for offsets in ([0, 1e400], [0, True], [], "ab")),
    ],
)
def test_a_header_that_is_none_is_reported_as_damaged(copy: Copy, tmp_path: Path, field: dict[str, object]) -> None:
    found = from_folder(copy, tmp_path, made(tmp_path / "a", content=weights(**field)))
    assert isinstance(found, Failure)
    assert found.cause is Cause.UNUSABLE
    assert "is damaged" in found.message


@pytest.mark.parametrize("length", [300, 5_000, 50_000])
def test_a_base_model_of_a_long_name_leaves_room_for_the_result(copy: Copy, tmp_path: Path, length: int) -> None:
    config = {**CONFIG, "base_model_name_or_path": "\U0001f701" * length}
    found = from_folder(copy, tmp_path, made(tmp_path / "a", config))
    assert isinstance(found, StoredAdapter)
    assert found.facts.base == ""
