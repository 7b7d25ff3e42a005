"""Programs that run in an engine's container: Python without imports beyond the standard library and the image's own.

The engine's image has Python and none of our code, so the pod brings the source of its programs along:

1. An annotation of the pod template has all of them, as one line of JSON. It is a part of the template, so a pod always
   has the programs that it was made with, and no other object can change or lose them.
2. A variable of the container has the annotation's value (`fieldRef`).
3. A command runs one of them by its name. `kubectl describe` shows one short line for it.

Who may change annotations of pods may also change their image, and so gains nothing.
"""

import json
from collections.abc import Mapping

from inference_operator.manifest import Manifest

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


def programs_text(programs: Mapping[str, str]) -> str:
    return json.dumps(dict(programs), sort_keys=True)


def programs_variable() -> Manifest:
    path = f"metadata.annotations['{PROGRAMS_ANNOTATION}']"
    return {"name": PROGRAMS_VARIABLE, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
