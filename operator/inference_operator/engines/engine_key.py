"""The key that engines ask of their routers: where it is in a pod, and how vLLM's command comes to ask for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from inference_operator.engines.programs import program_command
from inference_operator.text_tables import text_of

KEY_PROGRAM = "engine_key"
KEY_SOURCE = text_of(__package__, "engine_key_program.py")
KEY_FOLDER = "/engine-key"
KEY_ENTRY = "key"
"""The entry of the Secret, and the name of its file."""
KEY_FILE = f"{KEY_FOLDER}/{KEY_ENTRY}"
MIDDLEWARE = "inference_operator_engine_key.EngineKey"
"""The middleware's class, as the started command can import it."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The parts of vLLM's process with which it asks for the key; all are empty where it asks for none."""

    command: Sequence[str] = ()
    """Before the command of vLLM, which can import the middleware then."""
    options: Sequence[str] = ()
    """After the arguments of vLLM, so that no other middleware is around this one."""
    programs: Mapping[str, str] = field(default_factory=dict)
    file: str = ""


NO_GUARD = Guard()


def guard_of(model: str) -> Guard:
    program = program_command(KEY_PROGRAM, starts_another=True)
    command = (*program, f"file={KEY_FILE}", f"model={model}", "--")
    return Guard(command, (f"--middleware={MIDDLEWARE}",), {KEY_PROGRAM: KEY_SOURCE}, KEY_FILE)
