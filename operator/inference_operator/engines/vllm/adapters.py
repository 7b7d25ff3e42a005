"""LoRA adapters: the program that loads the listed ones, and those in the arguments of `vllm serve`."""

from collections.abc import Iterator, Mapping, Sequence

from inference_operator.api.engine import EngineSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.process import AdapterLoader, GroupMember
from inference_operator.engines.programs import program_command
from inference_operator.engines.vllm.options import given_options, parsed_json, values_of
from inference_operator.text_tables import text_of

MODULES = "--lora-modules"
_PATH = "path"
_LOCAL = "/"
"""Begins a path that vLLM takes as a folder. It looks for others on a hub (vLLM 0.32.0, lora/utils.py,
`get_adapter_absolute_path`)."""

LOADER = "adapters"
_SOURCE = text_of(__package__, "adapters_program.py")
LOADER_PORT = 8001
IN_USE = "vllm:lora_requests_info"
"""Metric whose labels name the adapters of running and waiting requests (0.32.0, `v1/metrics/loggers.py`)."""
RUNTIME_ADAPTERS = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"
"""Variable with which vLLM has the routes that load adapters. Routers forward none of them."""


def adapter_programs(spec: EngineSpec) -> Mapping[str, str]:
    return {LOADER: _SOURCE} if spec.adapter_slots else {}


def adapter_loader(
    spec: EngineSpec, port: int, member: GroupMember | None = None, *, key_file: str = ""
) -> AdapterLoader | None:
    """How the program runs that loads adapters into the vLLM of this port; None without slots for them.

    In a group the leader's loads them, and each one repeats the readiness of its member. The engine asks for the key in
    `key_file`, if there is one.
    """
    if not spec.adapter_slots:
        return None
    group = (str(member.health_port),) if member else ()
    key = (f"key={key_file}",) if key_file else ()
    command = (*program_command(LOADER), str(port), str(LOADER_PORT), IN_USE, *key, *group)
    return AdapterLoader(command, LOADER_PORT, "/ready")


def refusal_of_hub_adapters(args: Sequence[str]) -> Refusal | None:
    """The refusal of an adapter that vLLM would ask a hub for, or None."""
    for index, path in _paths(args):
        if not path.startswith(_LOCAL):
            problem = f"`{MODULES}` names an adapter of a hub, and an engine with `spec.cache` asks no hub."
            cure = "Name a folder of the container, with a path that begins with `/`, or remove `spec.cache`."
            return Refusal(Reason.INVALID_SPEC, f"spec.engine.args[{index}]", problem, cure)
    return None


def _paths(args: Sequence[str]) -> Iterator[tuple[int, str]]:
    for given in given_options(args, MODULES):
        if given.key:
            paths = [given.value or ""] if given.key == _PATH else []
        else:
            paths = [path for value in values_of(args, given) if (path := _path(value)) is not None]
        yield from ((given.index, path) for path in paths)


def _path(value: str) -> str | None:
    """The path of an adapter that is written `name=path` or as a JSON object; None if vLLM refuses it anyway.

    A comma makes the difference (vLLM 0.32.0, entrypoints/launchers/cli_args.py, `LoRAParserAction`).
    """
    if "=" in value and "," not in value:
        return value.partition("=")[2]
    module = parsed_json(value)
    path = module.get(_PATH) if isinstance(module, dict) else None
    return path if isinstance(path, str) else None
