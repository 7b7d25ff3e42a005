"""The process of a container of the operator's making: command, arguments, environment, and the hook before its stop.

Kubernetes expands `$(NAME)` in commands, arguments and values of variables, also to the value of a Secret. Strings of a
resource are in all three, and who writes a resource may have no right to see that Secret. So the operator uses no
`$(NAME)`, and writes every `$` as `$$`, which Kubernetes turns back into one `$` (Kubernetes 1.36,
third_party/forked/golang/expansion/expand.go).
"""

from collections.abc import Sequence

from inference_operator.api.container import EnvironmentVariable
from inference_operator.engines.model_access import SecretVariable
from inference_operator.manifest import Manifest


def process_fields(*, command: Sequence[str] = (), args: Sequence[str] = (), env: Sequence[Manifest] = ()) -> Manifest:
    """The fields of a container that say which process it runs, literally; without empty ones. `valueFrom` stays.

    Examples:
        >>> process_fields(command=["vllm", "serve"], args=["--seed=$(HF_TOKEN)"])
        {'command': ['vllm', 'serve'], 'args': ['--seed=$$(HF_TOKEN)']}
        >>> process_fields(env=[{"name": "PRICE", "value": "5$"}])
        {'env': [{'name': 'PRICE', 'value': '5$$'}]}
    """
    fields = {
        "command": [_literal(text) for text in command],
        "args": [_literal(text) for text in args],
        "env": [{**item, "value": _literal(item["value"])} if "value" in item else item for item in env],
    }
    return {name: value for name, value in fields.items() if value}


def environment(variables: Sequence[EnvironmentVariable]) -> list[Manifest]:
    """The variables as the API server stores them: without empty values."""
    dumped = (variable.model_dump(mode="json", by_alias=True, exclude_none=True) for variable in variables)
    return [{name: value for name, value in fields.items() if value != ""} for fields in dumped]


def secret_variables(variables: Sequence[SecretVariable]) -> list[Manifest]:
    """Variables that the kubelet fills from Secrets, which the operator never reads."""
    return [{"name": variable.name, "valueFrom": {"secretKeyRef": _key(variable)}} for variable in variables]


def pre_stop(command: Sequence[str]) -> Manifest:
    """The field of a container with its hook before SIGTERM. Kubernetes expands nothing in it."""
    return {"lifecycle": {"preStop": {"exec": {"command": list(command)}}}}


def pre_stop_wait(seconds: int) -> Manifest:
    """The field of a container whose hook before SIGTERM only waits; the image needs no program for it."""
    return {"lifecycle": {"preStop": {"sleep": {"seconds": seconds}}}}


def _key(variable: SecretVariable) -> Manifest:
    return {"name": variable.secret, "key": variable.name, **({"optional": True} if variable.optional else {})}


def _literal(text: str) -> str:
    return text.replace("$", "$$")
