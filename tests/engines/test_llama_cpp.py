"""llama.cpp's own words and its preStop hook. Messages are those of a real server of version 0.7.0."""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.api.hardware import Device
from inference_operator.api.reasons import Reason
from inference_operator.engines.llama_cpp.llama_cpp import API_PATHS, LlamaCpp
from inference_operator.engines.llama_cpp.options import IMAGES, PRE_STOP_VARIABLE
from inference_operator.engines.process import ServedModel, Timeouts
from inference_operator.engines.start_log import Phase
from inference_operator.sizing.choice import choose
from inference_operator.sizing.fitting import MOST_UNLINKED
from inference_operator.sizing.gpu_plan import GpuPlan
from inference_operator.sizing.plan import unchecked_plan
from inference_operator.sizing.shape import ParallelSizes, Shape, SizingInputs
from inference_operator.units import GIB
from tests.engines.test_contract import IN_GGUF, LLAMA_CPP_PAGE
from tests.engines.test_pre_stop import serving_metrics
from tests.sizing.pools import pool

CLOSED = (
    *("/metrics", "/props", "/slots", "/lora-adapters", "/health", "/completion", "/infill", "/apply-template"),
    *("/tokenize", "/v1/embeddings", "/v1/audio/transcriptions", "/"),
)
"""Routes that routers do not forward."""
BUSY = LLAMA_CPP_PAGE
WAITING = BUSY.replace("requests_processing 2", "requests_processing 0")
IDLE = WAITING.replace("requests_deferred 1", "requests_deferred 0")
ENGINE = LlamaCpp()


def hook(
    port: int, drain: int, env: Mapping[str, str] | None = None, user: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    """The hook, run beside a server on this port with the environment of an engine."""
    timeouts = Timeouts(startup=1800, dns_staleness=0, drain=drain)
    served = ServedModel("/models", "qwen", folder="/models")
    process = LlamaCpp(port).process(EngineSpec(), unchecked_plan(SizingInputs(1)), served, timeouts)
    (program,) = [one.value for one in process.env if one.name == PRE_STOP_VARIABLE]
    assert program is not None
    whole = {**os.environ, PRE_STOP_VARIABLE: program, **(env or {})}
    return subprocess.run(process.pre_stop, env=whole, user=user, capture_output=True, check=False, timeout=60)


def waited(port: int, drain: int = 60) -> float:
    """Seconds that the hook takes."""
    began = time.monotonic()
    done = hook(port, drain)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    return time.monotonic() - began


def test_the_hook_waits_until_no_request_is_left() -> None:
    with serving_metrics([BUSY, WAITING, IDLE]) as server:
        waited(server.server_port)
        assert server.scrapes == 3


def test_the_hook_waits_for_a_busy_server_no_longer_than_the_drain_time() -> None:
    with serving_metrics([BUSY]) as server:
        waited(server.server_port, drain=2)
        assert server.scrapes >= 1


def test_the_hook_ends_at_once_while_the_model_loads_and_where_nothing_listens() -> None:
    with serving_metrics(['{"error": {"message": "Loading model"}}'], status=503) as server:
        waited(server.server_port)
        assert server.scrapes == 1
        port = server.server_port
    waited(port)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder in which every account may write."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def test_no_variable_of_the_user_runs_code_in_the_hook(open_folder: Path) -> None:
    touch = f"/usr/bin/touch {open_folder}/ran"
    for name in ("bash", "cat", "timeout", "start"):
        (open_folder / name).write_text(f"#!/bin/bash\n{touch}\n")
        (open_folder / name).chmod(0o755)
    function = f"() {{ {touch}; }}"
    attacks: Sequence[Mapping[str, str]] = (
        {"SHELLOPTS": "xtrace", "PS4": f"$({touch})"},
        {"BASH_ENV": f"{open_folder}/start", "ENV": f"{open_folder}/start"},
        {"BASH_FUNC_timeout%%": function, "BASH_FUNC_cat%%": function},
        {"PATH": f"{open_folder}:{os.environ['PATH']}"},
    )
    user = 65534 if os.geteuid() == 0 else None  # as in a container: root's bash takes no PS4 from its environment
    with serving_metrics([IDLE]) as server:
        for number, attack in enumerate(attacks, start=1):
            done = hook(server.server_port, 60, attack, user)
            assert not (open_folder / "ran").exists(), attack
            assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), attack
            assert server.scrapes == number


@pytest.mark.parametrize(
    ("log", "reason", "said"),
    [
        (
            "0.36 E llama_model_load: error loading model: unknown model architecture: 'lloma'\n",
            Reason.UNSUPPORTED_ARCHITECTURE,
            "does not know the architecture lloma",
        ),
        (
            "0.36 E llama_model_load: error loading model: CLIP cannot be used as main model, use it with --mmproj\n",
            Reason.UNSUPPORTED_ARCHITECTURE,
            "generates no text",
        ),
        (
            (
                "0.28 E llama_model_load: error loading model: tensor 'blk.0.ffn_gate.weight' data is not within the"
                " file bounds, model is corrupted or incomplete\n"
            ),
            Reason.INVALID_MODEL,
            "damaged or not complete",
        ),
        ("0.23 E gguf_init_from_reader: invalid magic characters: 'hell', expected 'GGUF'\n", Reason.INVALID_MODEL, ""),
        ("0.32 E gguf_init_from_reader: failed to read key-value pairs\n", Reason.INVALID_MODEL, ""),
        (
            "0.28 E gguf_init_from_file: failed to open GGUF file '/models/a.gguf' (No such file or directory)\n",
            Reason.INVALID_MODEL,
            "not there any more",
        ),
        (
            (
                "5.88 E ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 20480262144\n"
                "6.15 E llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv"
                " cache\n"
            ),
            Reason.KV_CACHE_TOO_SMALL,
            "KV cache of all slots",
        ),
        (
            (
                "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9000.00 MiB on device 0: cudaMalloc failed: out"
                " of memory\n"
            ),
            Reason.GPU_OUT_OF_MEMORY,
            "smaller `spec.engine.maxModelLen`",
        ),
        (
            'error while handling argument "--device": invalid device: CUDA0\n\nusage:\n',
            Reason.GPU_NOT_VISIBLE,
            "sees no GPU 0",
        ),
        ('error while handling argument "--temp": stof\n\nusage:\n', Reason.INVALID_ARGUMENT, "value of `--temp`"),
        ("error: invalid argument: --nope\n", Reason.INVALID_ARGUMENT, "does not know `--nope`"),
    ],
)
def test_the_cause_of_an_end_is_named(log: str, reason: Reason, said: str) -> None:
    found = ENGINE.diagnose(log)
    assert found is not None
    assert (found.reason, said in found.cause) == (reason, True), found.cause


def test_the_phases_of_a_start_follow_its_log() -> None:
    loading = "0.00.198.468 I srv    load_model: loading model '/m/tiny.gguf'\n"
    ready = "0.00.700.204 I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 2048, kv_unified = 'false'\n"
    assert [ENGINE.phase(log) for log in ("", loading, loading + ready)] == [None, Phase.LOADING, Phase.WARMING_UP]


def test_layers_are_divided_over_gpus_without_nvlink_too() -> None:
    large = replace(IN_GGUF, weight_bytes=60 * GIB)
    found = choose(large, pool("L4:8"), lambda offer: ENGINE.on_gpus("", offer), SizingInputs())
    assert isinstance(found, GpuPlan), found
    assert found.shape.parallel.tensor > MOST_UNLINKED
    assert found.shape.parallel.pipeline == 1


def test_the_output_counts_as_a_layer_so_that_one_gpu_has_one_more() -> None:
    (gpu,) = pool("H100:8")
    halves = ENGINE.on_gpus("", gpu).budget(IN_GGUF, Shape(ParallelSizes(2), context=8192))
    assert IN_GGUF.layers == 36
    assert halves.weights == pytest.approx(IN_GGUF.weight_bytes / GIB * 19 / 36)


def test_routers_forward_no_route_that_shows_or_changes_the_state_of_the_server() -> None:
    assert not {*CLOSED} & {*API_PATHS}


def test_a_plan_promises_no_more_requests_than_there_are_slots() -> None:
    (gpu,) = pool("H100:8")
    found = ENGINE.on_gpus("", gpu).budget(IN_GGUF, Shape(context=2048, max_num_seqs=3))
    assert (found.concurrency, found.typical_concurrency, found.max_num_batched_tokens) == (3.0, 3.0, 2048)


def test_the_images_are_those_of_the_version_for_each_device() -> None:
    assert set(IMAGES) == set(Device)
    assert len({image.rpartition("-b")[2] for image in IMAGES.values()}) == 1
