"""What vLLM's process of a prefill and of a decode engine is started with."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.engines.kv_transfer import SIDE_CHANNEL_PORT, KVTransfer, TransferRole
from inference_operator.engines.process import EngineProcess, Front, ServedModel, Timeouts
from inference_operator.engines.programs import PROGRAMS_VARIABLE, programs_text
from inference_operator.engines.vllm import disaggregation_program as program
from inference_operator.engines.vllm.disaggregation import REQUESTS, lease_seconds
from inference_operator.engines.vllm.options import SPELLINGS as OPTIONS
from inference_operator.engines.vllm.vllm import SERVE, Vllm
from inference_operator.sizing.plan import unchecked_plan
from inference_operator.sizing.shape import ParallelSizes, SizingInputs

MOST_OF_A_VARIABLE = 32 * 4096
"""Bytes of one variable of a process that Linux takes (`MAX_ARG_STRLEN`)."""
TRANSFERS = {
    TransferRole.PREFILL: KVTransfer(TransferRole.PREFILL, "r1", objective=3.0),
    TransferRole.DECODE: KVTransfer(TransferRole.DECODE, "r1", "http://tiny-router.ns:8081", 512, 3.0),
}


def process(
    role: TransferRole | None, *, asks_for_key: bool = True, parallel: ParallelSizes | None = None
) -> EngineProcess:
    sizes = unchecked_plan(SizingInputs(1))
    sizes = replace(sizes, parallel=parallel or sizes.parallel)
    served, limits = ServedModel("Qwen/Qwen3-8B", "qwen"), Timeouts(startup=1800, dns_staleness=15, drain=300)
    spec = EngineSpec(adapterSlots=2) if role is None else EngineSpec()
    transfer = TRANSFERS[role] if role else None
    return Vllm().process(spec, sizes, served, limits, Front(asks_for_key=asks_for_key, transfer=transfer))


@pytest.mark.parametrize("role", TransferRole)
@pytest.mark.parametrize("asks_for_key", [True, False])
def test_the_command_of_a_role_can_import_its_middleware(
    role: TransferRole, tmp_path: Path, *, asks_for_key: bool
) -> None:
    made = process(role, asks_for_key=asks_for_key)
    assert made.command[-2:] == SERVE
    classes = [one.removeprefix("--middleware=") for one in made.args if one.startswith("--middleware=")]
    assert classes[0] == "inference_operator_disaggregation.Disaggregation"
    assert len(classes) == 1 + asks_for_key  # the last one is around the others, and asks for the key
    look = f"import json, os, {', '.join(one.rpartition('.')[0] for one in classes)} as last; print(json.dumps(dict(os.environ)))"
    variables = {
        **os.environ,
        PROGRAMS_VARIABLE: programs_text(made.programs),
        "TMPDIR": str(tmp_path),
        "POD_IP": "10.0.0.9",
    }
    command = (*made.command[:-2], sys.executable, "-c", look)
    for _ in range(2):  # a container that starts again finds its former files
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found[program.HOST] == "10.0.0.9"
    given, transfer = json.loads(found[program.VARIABLE]), TRANSFERS[role]
    assert given == {
        "role": role.name.lower(),
        "revision": "r1",
        "url": transfer.prefill_url,
        "tokens": transfer.min_prompt_tokens,
        "objective": 3.0,
        "lease": 63.0,
        "sequences": made.max_concurrency,
        "port": SIDE_CHANNEL_PORT,
        "ranks": 1,
    }


@pytest.mark.parametrize("role", TransferRole)
def test_both_roles_have_one_lease_and_compute_again_what_cannot_be_read(role: TransferRole) -> None:
    (option,) = [one for one in process(role).args if one.startswith("--kv-transfer-config=")]
    assert "--kv-transfer-config" in OPTIONS
    assert json.loads(option.partition("=")[2]) == {
        "kv_connector": "NixlConnector",
        "kv_role": {TransferRole.PREFILL: "kv_producer", TransferRole.DECODE: "kv_consumer"}[role],
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"kv_lease_duration": 63},
    }


def test_the_lease_is_six_times_as_long_as_the_longest_way_from_prefill_to_the_end_of_the_read() -> None:
    for objective in (0.1, 1.0, 1.43, 2.0, 60.0):
        assert lease_seconds(objective) >= 6 * (program.LEG_OBJECTIVES + program.READ_OBJECTIVES) * objective


@pytest.mark.parametrize(("parallel", "ranks"), [(ParallelSizes(1), 1), (ParallelSizes(1, data=4), 4), (ParallelSizes(8, data=4, nodes=2), 2), (ParallelSizes(8, nodes=2), 1)])  # fmt: skip
def test_each_rank_of_a_pod_is_asked_for_a_handshake(parallel: ParallelSizes, ranks: int) -> None:
    assert f"ranks={ranks}" in process(TransferRole.PREFILL, parallel=parallel).command


def test_a_drain_of_a_decode_engine_waits_for_requests_that_vllm_does_not_have_yet() -> None:
    assert program.counts().requests._name == REQUESTS  # noqa: SLF001 - prometheus_client shows no name
    assert process(TransferRole.DECODE).pre_stop[-1] == REQUESTS
    assert REQUESTS not in process(TransferRole.PREFILL).pre_stop


def test_an_engine_that_does_all_itself_has_nothing_of_a_transfer() -> None:
    made = process(None)
    assert program.PROGRAM not in made.programs
    assert not [one for one in (*made.command, *made.args) if "kv" in one or "disaggregation" in one]
    assert not [one.name for one in made.env if one.name.startswith(("UCX", "VLLM_NIXL"))]


def test_all_programs_fit_into_one_variable() -> None:
    parallel = ParallelSizes(8, nodes=2)
    programs = {**process(None, parallel=parallel).programs, **process(TransferRole.DECODE, parallel=parallel).programs}
    assert len(programs_text(programs)) < MOST_OF_A_VARIABLE
