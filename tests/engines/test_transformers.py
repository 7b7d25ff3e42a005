"""Transformers as an engine: its options, its memory, the log of its start, and the program that serves."""

import ast
import asyncio
import socket
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from enum import Enum
from importlib.resources import files
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from prometheus_client.parser import text_string_to_metric_families

from inference_operator.api.engine import EngineSpec
from inference_operator.api.hardware import Device
from inference_operator.api.reasons import Reason
from inference_operator.engines import transformers as package
from inference_operator.engines.options import Class, joint_classes, unsafe_arguments, unsafe_variables
from inference_operator.engines.process import EngineProcess, ProbeRequest, ServedModel, Timeouts
from inference_operator.engines.registry import ENGINES
from inference_operator.engines.start_log import Phase
from inference_operator.engines.transformers.memory import SHARE, OnOneGpu, TokenBytes, cpu_needs, support
from inference_operator.engines.transformers.transformers import BATCHES, CLASSES, OPTIONS, RUNNING, Transformers
from inference_operator.settings import Settings
from inference_operator.sizing.plan import cpu_plan, unchecked_plan
from inference_operator.sizing.shape import Shape, SizingInputs
from inference_operator.units import GIB
from inference_operator.views.samples import EngineSample, next_activity
from tests.sizing.pools import model

ENGINE = Transformers()
FACTS = model("Qwen/Qwen3-8B")
INPUTS = {"input_ids": [0]}
TIMEOUTS = Timeouts(startup=1800, dns_staleness=15, drain=300)
PROGRAM = files(package).joinpath("server_program.py").read_text(encoding="utf-8")


def made(spec: EngineSpec | None = None, *, served: ServedModel | None = None, cpus: bool = False) -> EngineProcess:
    sizes = SizingInputs(tensor=1)
    plan = cpu_plan(sizes, cpu_needs(FACTS, Shape()), FACTS, downloads=False) if cpus else unchecked_plan(sizes)
    asked = served or ServedModel("/models/qwen", "qwen")
    return ENGINE.process(spec or EngineSpec(), plan, asked, TIMEOUTS)


# Options


def test_each_option_has_one_class_and_only_those_that_users_may_set_are_taken() -> None:
    for one in OPTIONS.by_name.values():
        refusal = OPTIONS.refusal([f"{one.name}=1"])
        assert (refusal is not None) == (one.kind is Class.MANAGED)
        assert bool(unsafe_arguments([f"{one.name}=1"], CLASSES)) == (one.kind is Class.PODS)


@pytest.mark.parametrize("argument", ["--seed=1", "--default_seed=1", "--default-see=1", "value", "-x", ""])
def test_an_option_that_the_command_does_not_have_is_refused_to_everybody(argument: str) -> None:
    refusal = OPTIONS.refusal([argument])
    assert refusal is not None
    assert refusal.reason is Reason.UNKNOWN_ARGUMENT
    assert not argument or f"`{argument}`" not in refusal.message, "no value of the user's in a message"


def test_with_auto_a_name_needs_no_right_only_if_it_needs_none_for_each_engine() -> None:
    joint, vllm = ENGINES.option_classes["Auto"], ENGINES.option_classes["VLLM"]
    assert joint == joint_classes([vllm, CLASSES])
    assert unsafe_arguments(["--chat-template-kwargs=x", "--seed=1", "--tokenizer=a/b"], joint) == (
        "--chat-template-kwargs=x",
        "--tokenizer=a/b",
    )
    for name in ("HF_TOKEN", "VLLM_USE_V2_MODEL_RUNNER", "OMP_NUM_THREADS"):
        assert bool(unsafe_variables([name], joint)) == bool(unsafe_variables([name], vllm))
    assert unsafe_variables(["LD_PRELOAD", "HF_ENDPOINT"], joint) == ("LD_PRELOAD", "HF_ENDPOINT")


# The process


def test_the_command_runs_our_program_with_the_packages_of_the_image() -> None:
    process = made()
    assert process.command[:3] == ("python3", "-I", "-c")
    assert process.args[0] == "/models/qwen"
    assert process.pre_stop_seconds == TIMEOUTS.dns_staleness, "SIGTERM lets it finish its requests"
    assert not process.lists_models


def test_all_served_names_are_known_to_the_server() -> None:
    served = ServedModel("Qwen/Qwen3-8B", "qwen", commit="c" * 40, hub_cache="/model-cache")
    process = made(served=served)
    assert [word for word in process.args if word.startswith(("name=", "revision="))] == [
        "name=qwen",
        "name=Qwen/Qwen3-8B",
        f"revision={'c' * 40}",
    ]
    assert {"HF_HUB_OFFLINE": "1"}.items() <= {one.name: one.value for one in process.env}.items()


def test_one_request_at_a_time_where_nothing_tells_that_batches_are_right() -> None:
    assert made().max_concurrency == 1
    assert "--continuous-batching" not in made().args
    assert support("LlamaForCausalLM").implementation == "batched"


# Memory


def test_the_budget_inverts_the_sum_of_the_library() -> None:
    gpu = OnOneGpu(79.19)
    found = gpu.budget(FACTS, Shape(context=8192))
    tokens = TokenBytes.of(FACTS, Shape())
    activation = tokens.activation_gib(
        cached=found.kv_cache * GIB / tokens.cached, batch=found.max_num_batched_tokens, sequences=found.max_num_seqs
    )
    assert found.activation == pytest.approx(activation, rel=1e-6)
    assert found.kv_cache + activation == pytest.approx(SHARE * (79.19 - found.weights), rel=1e-6)


def test_a_context_that_leaves_no_room_does_not_fit() -> None:
    assert not OnOneGpu(16.5).budget(FACTS, Shape(context=8192)).fits
    assert not OnOneGpu(24.0).budget(FACTS, Shape(context=10**6)).fits


def test_quantized_weights_and_several_gpus_are_refused() -> None:
    gpu = OnOneGpu(79.19)
    assert gpu.unable(model("Qwen/Qwen3-8B-FP8"), Shape()) is not None
    assert gpu.allowed_sizes(FACTS, Shape(), 8) == (1,)


def test_on_cpus_the_server_gets_the_size_of_its_cache() -> None:
    process, needs = made(cpus=True), cpu_needs(FACTS, Shape())
    assert f"cache={needs.cache_bytes}" in process.args
    assert needs.memory_gib * GIB > FACTS.weight_bytes + needs.cache_bytes


# The log

STARTED = """Downloading org/model
Loading the weights
Loading weights:   0%|          | 0/21 [00:00<?, ?it/s]\rLoading weights:  62%|██████▏   | 13/21 [00:08<00:05]
"""


def test_phases_and_progress_are_those_of_the_log() -> None:
    assert ENGINE.phase(STARTED) is Phase.LOADING
    progress = ENGINE.load_progress(STARTED)
    assert progress is not None
    assert progress.percent == 60
    assert ENGINE.phase(f"{STARTED}Warming up\n") is Phase.WARMING_UP


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (
            "ValueError: this server is for models that read only text, and this one is of the kind `VLM`",
            Reason.UNSUPPORTED_ARCHITECTURE,
        ),
        ("AttributeError: module transformers has no attribute FooForCausalLM", Reason.UNSUPPORTED_ARCHITECTURE),
        ("AttributeError: 'BertModel' object has no attribute 'generation_config'", Reason.UNSUPPORTED_ARCHITECTURE),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", Reason.GPU_OUT_OF_MEMORY),
        ("MemoryError: Memory footprint 99 is more than available memory 9", Reason.GPU_OUT_OF_MEMORY),
        ("huggingface_hub.errors.GatedRepoError: 403 Client Error", Reason.MODEL_GATED),
        ("OSError: Error no file named model.safetensors, or pytorch_model.bin, found", Reason.INVALID_MODEL),
    ],
)
def test_known_errors_have_a_reason_and_a_cure(log: str, reason: Reason) -> None:
    found = ENGINE.diagnose(log)
    assert found is not None
    assert found.reason is reason
    assert "{" not in found.cause


# The program


@pytest.fixture(scope="module")
def program() -> SimpleNamespace:
    """The names that the program defines."""
    names: dict[str, Any] = {"__name__": "server_program"}
    exec(compile(PROGRAM, "server_program.py", "exec"), names)  # noqa: S102 - as the container does
    return SimpleNamespace(**names)


def test_the_program_imports_nothing_of_the_image_before_it_runs() -> None:
    top = [one for one in ast.parse(PROGRAM).body if isinstance(one, ast.Import | ast.ImportFrom)]
    names = {alias.name.partition(".")[0] for one in top if isinstance(one, ast.Import) for alias in one.names}
    names |= {str(one.module).partition(".")[0] for one in top if isinstance(one, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names


def test_open_requests_are_counted_until_their_answers_are_complete(program: SimpleNamespace) -> None:
    metrics, seen = program.Metrics(), list[int]()

    async def app(scope: dict[str, str], receive: object, send: object) -> None:  # noqa: ARG001 - ASGI
        seen.append(metrics.running)
        if scope.get("path") == "/fails":
            raise ConnectionError

    counted = metrics.counting(app)

    async def requests(scopes: Sequence[dict[str, str]]) -> None:
        for scope in scopes:
            try:
                await counted(scope, None, None)
            except ConnectionError:
                seen.append(metrics.running)

    post = {"type": "http", "method": "POST"}
    asyncio.run(requests([post, {**post, "path": "/fails"}, {"type": "http", "method": "GET"}, {"type": "lifespan"}]))
    assert seen == [1, 1, 0, 0, 0]
    metrics.count_batch()
    sample = ENGINE.sample(metrics.page)
    assert sample is not None
    assert (sample.running, sample.progress) == (0, (1.0,))
    families = {one.name: one.type for one in text_string_to_metric_families(metrics.page)}
    assert families == {RUNNING: "gauge", BATCHES.removesuffix("_total"): "counter"}


def test_an_engine_with_open_requests_that_computes_no_batch_makes_no_progress() -> None:
    def sampled(batches: int) -> EngineSample:
        found = ENGINE.sample(f"{RUNNING} 2\n{BATCHES} {batches}\n")
        assert found is not None
        return found

    first = next_activity(None, sampled(7), sessions=2, at=100, longest_gap=60)
    hung = next_activity(first, sampled(7), sessions=2, at=115, longest_gap=60)
    computing = next_activity(first, sampled(8), sessions=2, at=115, longest_gap=60)
    assert (hung.seconds_without_progress, computing.seconds_without_progress) == (15, 0)
    assert ENGINE.probe_request("") == ProbeRequest("/v1/completions", {"prompt": "1", "max_tokens": 1})


@pytest.mark.parametrize(("kind", "ends"), [(b"text/event-stream; charset=utf-8", True), (b"application/json", False)])
def test_a_complete_stream_ends_with_the_mark_of_the_api(program: SimpleNamespace, kind: bytes, ends: bool) -> None:  # noqa: FBT001 - a parameter
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def answer() -> None:
        marked = program.with_end_mark(send)
        await marked({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await marked({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        await marked({"type": "http.response.body", "body": b"", "more_body": False})

    asyncio.run(answer())
    assert [one["body"] for one in sent[1:]] == [b"data: 1\n\n", b"data: [DONE]\n\n" if ends else b""]


@pytest.mark.parametrize(
    ("asked", "temperature", "top_p"),
    [
        ({"do_sample": False, "temperature": 1.0, "top_p": 1.0}, 1e-5, 1 - 1e-6),
        ({"do_sample": True, "temperature": 0.7, "top_p": 0.9}, 0.7, 0.9),
        ({"do_sample": True, "temperature": None, "top_p": None}, 1.0, 1 - 1e-6),
        ({"do_sample": True, "temperature": 0.0, "top_p": 1.0}, 1e-5, 1 - 1e-6),
    ],
)
def test_each_request_has_sampling_parameters_of_its_own(
    program: SimpleNamespace, asked: dict[str, object], temperature: float, top_p: float
) -> None:
    assert program.sampling_of(SimpleNamespace(**asked)) == {"temperature": temperature, "top_p": top_p}


@pytest.mark.parametrize(("prompt", "most", "answer"), [(10, 100, 90), (10, 0, 64), (99, 100, 1)])
def test_prompt_and_answer_together_have_at_most_the_context(
    program: SimpleNamespace, prompt: int, most: int, answer: int
) -> None:
    inner = SimpleNamespace(max_position_embeddings=74)
    known = SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: inner))
    config = SimpleNamespace(max_new_tokens=1024)
    program.limit_answer(known, {"input_ids": [0] * prompt}, config, most)
    assert config.max_new_tokens == answer


def test_a_request_has_an_identity_of_its_own_whatever_it_claims(program: SimpleNamespace) -> None:
    seen: list[str] = []

    class Manager:
        def generate_streaming(self, *_: object, request_id: str, **__: object) -> None:
            seen.append(request_id)

        generate_non_streaming = generate_streaming

    manager = program.limited(Manager, 100)()
    config = SimpleNamespace(max_new_tokens=None, do_sample=False)
    for generate in (manager.generate_streaming, manager.generate_streaming, manager.generate_non_streaming):
        generate(SimpleNamespace(config=SimpleNamespace(get_text_config=dict)), None, INPUTS, config, request_id="a")
    assert len({*seen, "a"}) == 4


def test_the_server_has_no_route_that_loads_another_model_or_unloads_this_one(
    program: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    uvicorn = SimpleNamespace(Config=type("Config", (), {"__init__": lambda *_, **__: None}), Server=object)
    for name in ("starlette.exceptions", "starlette.responses"):
        classes = {"HTTPException": Exception, "PlainTextResponse": object}
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**classes))
    monkeypatch.setitem(sys.modules, "uvicorn", uvicorn)
    paths = ["/load_model", "/reset", "/v1/chat/completions", "/v1/models", "/v1/audio/transcriptions"]
    app = MagicMock()
    app.router.routes = [SimpleNamespace(path=path) for path in paths]
    program.install_server("qwen", 5, "")
    uvicorn.Config(app)
    assert [one.path for one in app.router.routes] == ["/v1/chat/completions"]


def test_a_model_that_reads_more_than_text_is_refused(
    program: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Modality(Enum):
        LLM, VLM = "LLM", "VLM"

    handler = type("BaseHandler", (), {"_resolve_model": lambda *_: (0, MagicMock(), 0), "_build_generation_config": 0})
    monkeypatch.setitem(
        sys.modules,
        "transformers.cli.serving.utils",
        SimpleNamespace(BaseHandler=handler, Modality=Modality),
    )
    program.install_requests(["qwen"])
    for kind in (Modality.VLM, Modality.LLM):
        own: Any = handler()
        own.model_manager = SimpleNamespace(force_model="qwen", get_model_modality=lambda *_, kind=kind, **__: kind)
        with nullcontext() if kind is Modality.LLM else pytest.raises(ValueError, match="only text"):
            assert own._resolve_model({})[0] == "qwen"  # noqa: SLF001 - none is public


def test_an_address_of_ipv6_is_one_of_ipv4_too(program: SimpleNamespace) -> None:
    with program.bound("::", 0) as listening:
        listening.listen()
        port = listening.getsockname()[1]
        for address in ("127.0.0.1", "::1"):
            socket.create_connection((address, port), timeout=5).close()


def test_the_images_are_those_of_the_settings() -> None:
    settings = Settings()
    assert ENGINE.image(Device.CPU, settings) == settings.cpu_engine_image
