"""The check of the GPUs before an engine starts, run as the kubelet runs it, with a shared library as CUDA driver."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.engines.programs import PROGRAMS_VARIABLE, checked_start, programs_text
from inference_operator.engines.vllm.vllm import PROGRAMS, Vllm
from inference_operator.hardware.kinds import GPU_KINDS, kind_named
from inference_operator.hardware.offers import offer_of_kind
from inference_operator.sizing.choice import choose
from inference_operator.sizing.gpu_plan import GpuPlan
from inference_operator.sizing.plan import Plan, checked_plan, unchecked_plan
from inference_operator.sizing.shape import SizingInputs
from tests.sizing.pools import model, on_gpus
from tests.testing.cuda_driver import H100, L4, Gpu, compile_driver

Start = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Runs the command of a plan on a machine with these GPUs; None is one without a driver."""

    def run(
        plan: Plan, gpus: list[Gpu] | None, *, command: tuple[str, ...] = ("echo", "serves"), error: int = 0
    ) -> subprocess.CompletedProcess[str]:
        if gpus is not None:
            compile_driver(tmp_path / "libcuda.so.1", gpus, error=error)
        _, *rest = checked_start(command, plan)
        env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), PROGRAMS_VARIABLE: programs_text(PROGRAMS)}
        return subprocess.run(
            [sys.executable, *rest], env=env, capture_output=True, text=True, check=False, timeout=60, cwd="/"
        )

    return run


def sized_for(kind: str, gpus: int = 1) -> Plan:
    return replace(unchecked_plan(SizingInputs(tensor=gpus)), gpu=kind)


def checked_on(kind: str, *, memory_gib: float) -> Plan:
    """A plan for a kind that only node labels tell, with its memory."""
    chosen = replace(offer_of_kind(GPU_KINDS[0]), kind=kind, memory_gib=memory_gib, capability=(12, 0))
    facts = model("Qwen/Qwen3-0.6B")
    found = choose(facts, [chosen], on_gpus, SizingInputs())
    assert isinstance(found, GpuPlan)
    return checked_plan(found, facts, downloads=True)


def test_an_engine_starts_on_the_gpus_that_it_was_sized_for(start: Start) -> None:
    done = start(sized_for("H100-80GB", 2), [H100, H100])
    assert (done.returncode, done.stdout, done.stderr) == (0, "serves\n", "")


def test_an_engine_for_80_gb_ends_on_a_node_with_24_gb_and_names_both(start: Start) -> None:
    done = start(sized_for("H100-80GB"), [L4])
    assert (done.returncode, done.stdout) == (1, "")
    found = Vllm().diagnose(done.stderr)
    assert found is not None
    assert found.reason is Reason.WRONG_GPU
    assert "1 x H100-80GB (79.18 GiB, compute capability 9.0)" in found.cause
    assert "1: NVIDIA L4 (22.0 GiB, compute capability 8.9)" in found.cause
    assert "`gpuNodeLabels`" in found.cause


WRONG: dict[str, tuple[str, int, list[Gpu]]] = {
    "too few GPUs": ("H100-80GB", 2, [H100]),
    "no GPU": ("H100-80GB", 1, []),
    "one of two is another": ("H100-80GB", 2, [H100, L4]),
    "more memory, which sizing did not count on": ("H100-80GB", 1, [("NVIDIA H200", 139.7, (9, 0))]),
    "a MIG slice": ("A100-80GB", 1, [("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 9.5, (8, 0))]),
    "the smaller A100": ("A100-80GB", 1, [("NVIDIA A100-SXM4-40GB", 39.38, (8, 0))]),
    "nearly the same memory, another name": ("RTX-4090", 1, [L4]),
    "the same memory, another compute capability": ("A10G", 1, [("NVIDIA L4", 22.06, (8, 9))]),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_gpu_ends_the_engine(start: Start, case: str) -> None:
    kind, count, gpus = WRONG[case]
    done = start(sized_for(kind, count), gpus)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"wrong GPU: the engine was sized for {count} x {kind} (")


RIGHT: dict[str, tuple[str, list[Gpu]]] = {
    "a driver that reports a little less": ("L4", [("NVIDIA L4", 21.0, (8, 9))]),
    "another name, but equal memory and capability": ("A10G", [("NVIDIA A10", 22.06, (8, 6))]),
    "more GPUs than needed": ("L4", [L4, H100]),
    "a MIG slice as planned": ("A100-80GB 3g.40gb", [("NVIDIA A100-SXM4-80GB MIG 3g.40gb", 39.25, (8, 0))]),
}


@pytest.mark.parametrize("case", RIGHT)
def test_a_right_gpu_starts_the_engine(start: Start, case: str) -> None:
    kind, gpus = RIGHT[case]
    assert start(sized_for(kind), gpus).stdout == "serves\n"


def test_a_gpu_that_pods_share_through_mps_may_report_the_memory_of_one_client(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = ("NVIDIA L4", 11.03, (8, 9))
    assert start(sized_for("L4"), [part]).returncode == 1
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/mps/nvidia.com/gpu/pipe")
    assert start(sized_for("L4"), [part]).stdout == "serves\n"
    assert start(sized_for("L40S"), [part]).returncode == 1


def test_a_shared_gpu_of_an_unknown_kind_has_the_name_of_its_label(start: Start) -> None:
    plan = checked_on("NVIDIA-New-48GB-SHARED", memory_gib=45.0)
    assert start(plan, [("NVIDIA New 48GB", 47.0, (12, 0))]).stdout == "serves\n"
    assert start(plan, [("NVIDIA Old 48GB", 47.0, (8, 0))]).returncode == 1


@pytest.mark.parametrize("kind", [kind.name for kind in GPU_KINDS])
def test_the_check_has_the_memory_and_capability_of_every_kind(kind: str) -> None:
    known = kind_named(kind)
    assert known is not None
    *_, name, memory, capability, _, _ = checked_start(("serve",), sized_for(kind))
    assert name == f"name={known.product}"
    assert memory == f"memory={known.memory_gib}"
    assert capability == "capability={}.{}".format(*known.capability)


def test_an_engine_starts_if_no_cuda_driver_can_be_asked(start: Start) -> None:
    absent = start(sized_for("H100-80GB"), None)
    assert (absent.returncode, absent.stdout) == (0, "serves\n")
    assert absent.stderr.startswith("The GPUs were not checked: libcuda.so.1:")
    failing = start(sized_for("H100-80GB"), [H100], error=803)
    assert failing.stdout == "serves\n"
    assert failing.stderr == "The GPUs were not checked: cuInit returned error 803\n"


def test_the_engine_replaces_the_check_with_default_signals(start: Start) -> None:
    """The same process goes on, which the kubelet stops with SIGTERM. What Python ignores, the engine does not."""
    status = start(sized_for("L4"), [L4], command=("cat", "/proc/self/status")).stdout
    shown = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert (shown["Name"], int(shown["PPid"])) == ("cat", os.getpid())
    ignored = int(shown["SigIgn"], 16)
    assert not [number for number in (signal.SIGPIPE, signal.SIGXFSZ) if ignored >> (number - 1) & 1]


def test_engines_without_a_kind_of_gpu_start_without_the_check() -> None:
    assert checked_start(("serve",), unchecked_plan(SizingInputs(tensor=1))) == ("serve",)


def test_kubernetes_expands_no_variable_in_the_command() -> None:
    """It would replace `$(NAME)` (API reference, Container)."""
    for kind in GPU_KINDS:
        assert not any("$(" in word for word in checked_start(("serve",), sized_for(kind.name)))
