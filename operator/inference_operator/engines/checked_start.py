"""The command of an engine on GPUs: it checks the GPUs of its container, and then becomes the engine's process."""

import re
from collections.abc import Sequence

from inference_operator.engines.programs import PROGRAMS_VARIABLE, program_command
from inference_operator.hardware.kinds import kind_named
from inference_operator.hardware.offers import offer_named
from inference_operator.sizing.plan import Plan
from inference_operator.text_tables import text_of

GPU_CHECK = "gpu_check"
GPU_CHECK_SOURCE = text_of(__package__, "gpu_check.py")
SHARED = "-SHARED"
"""Ending of the product label of a GPU that pods share (NVIDIA/k8s-device-plugin 0.18, `internal/lm/resource.go`)."""


def checked_start(command: Sequence[str], plan: Plan) -> tuple[str, ...]:
    expected = _expected(plan)
    is_program = any(PROGRAMS_VARIABLE in word for word in command)
    check = program_command(GPU_CHECK, starts_another=is_program)
    return (*check, *expected, "--", *command) if expected else tuple(command)


def _expected(plan: Plan) -> Sequence[str]:
    offer = offer_named(plan.gpu) if plan.gpu else None
    memory = plan.per_gpu.memory_gib if plan.per_gpu else offer.memory_gib if offer else 0.0
    if not (plan.gpu and memory):
        return ()
    whole = plan.gpu.partition(" ")[0].removesuffix(SHARED)
    kind = kind_named(whole) if offer else None
    major, minor = offer.capability if offer else (0, 0)
    return (
        f"gpus={plan.gpus_per_pod}",
        f"kind={plan.gpu}",
        f"name={kind.product if kind else '' if whole == 'MIG' else f'^{re.escape(whole)}$'}",
        f"memory={memory}",
        f"capability={major}.{minor}",
    )
