"""vLLM over several nodes: what each pod runs."""

import ast
import sys
from collections import Counter
from dataclasses import replace

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.engines.group.http_page import HttpPage
from inference_operator.engines.group.launch import (
    ADDRESS_VARIABLE,
    CONTROL_PORT,
    DRAIN,
    MEMBER,
    NAME_VARIABLE,
    RANK_VARIABLE,
    SERVICE_VARIABLE,
    group_member,
    member_source,
)
from inference_operator.engines.group.options import EndCause, Options
from inference_operator.engines.group.peers import Visitors
from inference_operator.engines.process import HEALTH_PORT, EngineProcess
from inference_operator.engines.programs import GPU_CHECK, PROGRAMS_VARIABLE
from inference_operator.engines.vllm.flags import MANAGED_FLAGS
from inference_operator.engines.vllm.groups import HOST_IP, WORKER_ARGS
from inference_operator.engines.vllm.options import SPELLINGS
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.settings import Settings
from inference_operator.sizing.plan import Plan, unchecked_plan
from inference_operator.sizing.shape import ParallelSizes, SizingInputs
from tests.engines.contract import SERVED, TIMEOUTS
from tests.testing.managed_flags import managed_flag

PARALLEL = ParallelSizes(tensor=8, pipeline=2, nodes=2)
PLAN = replace(unchecked_plan(SizingInputs(8)), parallel=PARALLEL, gpus_per_replica=16)
ON_GPUS = replace(PLAN, gpu="H100-80GB")
LONGEST_VARIABLE = 128 * 1024
"""Bytes of one variable (Linux, MAX_ARG_STRLEN)."""


def made(plan: Plan = PLAN, spec: EngineSpec | None = None) -> EngineProcess:
    return Vllm().process(spec or EngineSpec(), plan, SERVED, TIMEOUTS)


def options(process: EngineProcess, rank: int) -> Options:
    """What the program of a member reads."""
    words = [*process.command, *process.args]
    start = next(index for index, word in enumerate(words) if f'["{MEMBER}"]' in word) + 1
    variables = {RANK_VARIABLE: str(rank), NAME_VARIABLE: f"qwen-engine-3-{rank}", ADDRESS_VARIABLE: "10.0.0.7"}
    return Options(words[start:], {**variables, SERVICE_VARIABLE: "qwen-engine.ml.svc"})


def test_an_engine_in_one_pod_is_no_group() -> None:
    alone = made(unchecked_plan(SizingInputs(8)))
    assert (alone.member, alone.command) == (None, ("vllm", "serve"))
    assert not {MEMBER, DRAIN} & set(alone.programs)


@pytest.mark.parametrize(("rank", "headless"), [(0, []), (1, ["--headless"])])
def test_each_pod_starts_vllm_with_its_rank_and_the_address_of_the_leader(rank: int, headless: list[str]) -> None:
    found = options(made(), rank)
    command = found.started("10.0.0.5")
    assert command[:3] == ["vllm", "serve", SERVED.model]
    assert {"--tensor-parallel-size=8", "--pipeline-parallel-size=2"} <= set(command)
    own = ["--nnodes=2", f"--node-rank={rank}", "--master-addr=10.0.0.5", "--master-port=29501", *headless]
    assert command[-len(own) :] == own
    assert (found.host(0), found.variable) == ("qwen-engine-3-0.qwen-engine.ml.svc", HOST_IP)
    assert (found.start, found.staleness, found.drain) == (1800, 18, 300)
    assert (found.size, found.health, found.port, found.path) == (2, HEALTH_PORT, 8000, "/health")


WIDE = replace(PLAN, parallel=ParallelSizes(tensor=1, data=16, nodes=2), max_num_seqs=256)


@pytest.mark.parametrize(("rank", "own"), [(0, "--api-server-count=1"), (1, "--headless")])
def test_data_parallel_ranks_are_divided_over_pods_and_the_leader_has_the_only_api(rank: int, own: str) -> None:
    process = made(WIDE, EngineSpec(image="vllm/vllm-openai:v0.32.0"))
    command = options(process, rank).started("10.0.0.5")
    shared = ["--tensor-parallel-size=1", "--data-parallel-size=16", "--enable-expert-parallel"]
    assert [one for one in command if "parallel" in one] == shared
    assert command[-5:] == ["--nnodes=2", f"--node-rank={rank}", "--master-addr=10.0.0.5", "--master-port=29501", own]
    assert process.max_concurrency == 16 * 256, "each rank has batches of its own"
    assert f"--max-num-queued-reqs={16 * 256 * 32}" in process.args


def test_data_parallel_ranks_on_one_node_need_no_members() -> None:
    process = made(replace(WIDE, parallel=ParallelSizes(tensor=1, data=8), gpus_per_replica=8))
    assert process.member is None
    assert {"--data-parallel-size=8", "--enable-expert-parallel", "--api-server-count=1"} <= set(process.args)
    assert "--enable-expert-parallel" not in made().args


def test_tensor_parallelism_over_pods_has_no_pipeline() -> None:
    spread = replace(PLAN, parallel=ParallelSizes(tensor=16, nodes=2))
    commands = [options(made(spread), rank).started("10.0.0.5") for rank in (0, 1)]
    for command in commands:
        assert [one for one in command if "parallel" in one] == ["--tensor-parallel-size=16"]
    assert commands[1][-1] == "--headless"


def test_what_a_member_adds_are_managed_options_of_vllm() -> None:
    for argument in WORKER_ARGS:
        assert argument.partition("=")[0] in SPELLINGS
        assert managed_flag(argument) in MANAGED_FLAGS
        refused = Vllm().check(EngineSpec(args=(argument,)), image="vllm/vllm-openai:v0.32.0", settings=Settings())
        assert refused is not None
        assert "`spec.parallelism.nodes`" in refused.cure


def test_the_gpus_of_each_pod_are_checked_before_its_engine_starts() -> None:
    process = made(ON_GPUS)
    member, check = (
        next(i for i, word in enumerate(process.command) if f'["{name}"]' in word) for name in (MEMBER, GPU_CHECK)
    )
    assert member < check
    assert f'environ.get("{PROGRAMS_VARIABLE}")' in process.command[member], "the check needs the variable"
    assert f'environ.pop("{PROGRAMS_VARIABLE}")' in process.command[check]
    assert "gpus=8" in process.command
    assert f'environ.pop("{PROGRAMS_VARIABLE}")' in made().command[4]


def test_a_member_has_its_ports_its_programs_and_a_hook_that_drains_the_group() -> None:
    process = made(spec=EngineSpec(adapterSlots=2))
    member = process.member
    assert member == group_member(2)
    assert member is not None
    ports = [
        process.port,
        CONTROL_PORT,
        member.health_port,
        process.adapter_loader and process.adapter_loader.port,
    ]
    assert len(set(ports)) == len(ports)
    assert f'["{DRAIN}"]' in process.pre_stop[-3]
    assert process.pre_stop[-2:] == (str(HEALTH_PORT), "320")
    assert {MEMBER, DRAIN} <= set(process.programs)
    assert process.adapter_loader is not None
    assert process.adapter_loader.command[-1] == str(HEALTH_PORT)
    assert sum(map(len, process.programs.values())) < LONGEST_VARIABLE / 2


def test_the_parts_of_the_program_do_not_hide_each_others_names() -> None:
    tree = ast.parse(member_source(), feature_version=(3, 10))
    names: Counter[str] = Counter()
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names[node.name] += 1
        elif isinstance(node, ast.Assign):
            names.update(one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name))
    assert [name for name, count in names.items() if count > 1] == []
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    }
    assert imported <= sys.stdlib_module_names


def test_only_the_pod_itself_drains_its_group() -> None:
    asked: list[str] = []
    page = HttpPage(Visitors(), dict, {"/ready": lambda: True}, lambda: asked.append("drain"))
    assert (page.status("POST", "/drain", own=False), asked) == (403, [])
    assert (page.status("POST", "/drain", own=True), asked) == (200, ["drain"])


@pytest.mark.parametrize(
    "words",
    [
        {"end": 7, "how": "exit", "number": 1},
        {"end": 1, "how": "<script>", "number": 1},
        {"end": 1, "how": "exit", "number": "1; x"},
        {"end": [], "how": {}, "number": None},
    ],
)
def test_what_a_leader_cannot_have_said_is_its_own_loss(words: dict[str, object]) -> None:
    assert options(made(), 1).cause(words) == EndCause(0, "lost")
