"""Programs that run in an engine's container: Python without imports beyond the standard library and the image's own.

The engine's image has Python and none of our code, so the pod brings the source of its programs along:

1. An annotation of the pod template has all of them, as one line of JSON. It is a part of the template, so a pod always
   has the programs that it was made with, and no other object can change or lose them.
2. A variable of the container has the annotation's value (`fieldRef`).
3. A command runs one of them by its name. `kubectl describe` shows one short line for it.

Who may change annotations of pods may also change their image, and so gains nothing.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from inference_operator.hardware.kinds import kind_named
from inference_operator.hardware.offers import offer_named
from inference_operator.manifest import Manifest
from inference_operator.sizing.plan import Plan
from inference_operator.text_tables import text_of

PROGRAMS_ANNOTATION = "inference-operator.dev/programs"
PROGRAMS_VARIABLE = "INFERENCE_OPERATOR_PROGRAMS"


def program_command(name: str, *, has_packages: bool = False, starts_another: bool = False) -> tuple[str, ...]:
    """The command that runs a program; its arguments follow. The program, and what it starts, has no such variable.

    Args:
        starts_another: whether it becomes another such program, which needs the variable.
    """
    read = "get" if starts_another else "pop"
    loader = f'import json, os; exec(json.loads(os.environ.{read}("{PROGRAMS_VARIABLE}"))["{name}"])'
    return ("python3", "-I", *(() if has_packages else ("-S",)), "-c", loader)


@dataclass(frozen=True, slots=True)
class Middleware:
    """The parts of vLLM's process that give its server a middleware of the operator; all are empty without one."""

    command: Sequence[str] = ()
    """Before the command of vLLM, which can import the middleware then."""
    options: Sequence[str] = ()
    """After the arguments of vLLM. Those of the engine's key are the last, so that no other middleware is around it."""
    programs: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


NO_MIDDLEWARE = Middleware()


def programs_text(programs: Mapping[str, str]) -> str:
    return json.dumps(dict(programs), sort_keys=True)


def programs_variable() -> Manifest:
    path = f"metadata.annotations['{PROGRAMS_ANNOTATION}']"
    return {"name": PROGRAMS_VARIABLE, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


GPU_CHECK = "gpu_check"
CHECK_PROGRAMS = {GPU_CHECK: text_of(__package__, "gpu_check.py")}
SHARED = "-SHARED"
"""Ending of the product label of a GPU that pods share (NVIDIA/k8s-device-plugin 0.18, `internal/lm/resource.go`)."""


def checked_start(command: Sequence[str], plan: Plan) -> tuple[str, ...]:
    """The command of an engine on GPUs, which checks the GPUs of its container before it becomes the engine."""
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


KEY_PROGRAM = "engine_key"
KEY_PROGRAMS = {KEY_PROGRAM: text_of(__package__, "engine_key_program.py")}
KEY_FOLDER = "/engine-key"
KEY_ENTRY = "key"
"""The entry of the Secret, and the name of its file."""
KEY_FILE = f"{KEY_FOLDER}/{KEY_ENTRY}"
MIDDLEWARE = "inference_operator_engine_key.EngineKey"
"""The middleware's class, as the started command can import it."""


def guard_of(model: str) -> Middleware:
    program = program_command(KEY_PROGRAM, starts_another=True)
    command = (*program, f"file={KEY_FILE}", f"model={model}", "--")
    return Middleware(command, (f"--middleware={MIDDLEWARE}",), KEY_PROGRAMS)
