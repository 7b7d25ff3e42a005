"""Environment variables of engines that users may not set, for all engines, and the refusal of one that is set."""

from collections.abc import Collection, Mapping, Sequence

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.programs import PROGRAMS_VARIABLE

NO_FIELD = "Remove it; the operator decides it and has no field for it."
"""The cure of a managed name without a field."""
MANAGED: Mapping[str, str] = {
    "HOME": NO_FIELD,
    PROGRAMS_VARIABLE: NO_FIELD,
    **dict.fromkeys(("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"), "Remove it; Kubernetes assigns the GPUs."),
}
"""Variables that the operator or Kubernetes sets, with the cure."""
LOADS_LIBRARIES = "makes the engine's processes load other libraries"
_PYTHON = "changes which code Python runs"
DANGEROUS: Mapping[str, str] = {
    **dict.fromkeys(("LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD", "GCONV_PATH", "GLIBC_TUNABLES"), LOADS_LIBRARIES),
    **dict.fromkeys(
        ("PYTHONBREAKPOINT", "PYTHONHOME", "PYTHONINSPECT", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONUSERBASE"), _PYTHON
    ),
}
"""Variables that need permission by a setting of the operator, with what each one does."""


def with_defaults(
    requested: Sequence[EnvironmentVariable], defaults: Mapping[str, str]
) -> tuple[EnvironmentVariable, ...]:
    """The engine's own variables, except those that the user sets; then those of the user.

    Examples:
        >>> variables = with_defaults([EnvironmentVariable(name="USER", value="me")], {"HOME": "/home", "USER": "vllm"})
        >>> [(variable.name, variable.value) for variable in variables]
        [('HOME', '/home'), ('USER', 'me')]
    """
    names = {variable.name for variable in requested}
    own = (EnvironmentVariable(name=name, value=value) for name, value in defaults.items() if name not in names)
    return (*own, *requested)


def refusal_of_variables(
    env: Sequence[EnvironmentVariable],
    *,
    managed: Mapping[str, str] = MANAGED,
    dangerous: Mapping[str, str] = DANGEROUS,
    allowed: Collection[str] = (),
) -> Refusal | None:
    """The refusal of the first variable that users may not set, or None.

    Examples:
        >>> print(refusal_of_variables([EnvironmentVariable(name="LD_PRELOAD", value="/a.so")]).problem)
        `LD_PRELOAD` makes the engine's processes load other libraries, which is not allowed here.
    """
    for variable in env:
        name, field = variable.name, f"spec.engine.env[{variable.name}]"
        if cure := managed.get(name):
            return Refusal(Reason.MANAGED_ARGUMENT, field, f"`{name}` is managed by the operator.", cure)
        if name in dangerous and name not in allowed:
            return not_allowed(field, name, dangerous[name], "allowedEnvironment")
    return None


def not_allowed(field: str, name: str, what: str, setting: str) -> Refusal:
    problem = f"`{name}` {what}, which is not allowed here."
    cure = f"Remove it, or ask the operator's administrator to add it to the setting `{setting}`."
    return Refusal(Reason.ARGUMENT_NOT_ALLOWED, field, problem, cure)
