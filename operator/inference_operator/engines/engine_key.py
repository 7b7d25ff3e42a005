"""The key that engines ask of their routers: where it is in a pod, and how vLLM's command comes to ask for it."""

from collections.abc import Sequence
from importlib.resources import files

from inference_operator.engines.programs import program_command

KEY_PROGRAM = "engine_key"
"""Name of the program that asks for the key among those of a pod."""
KEY_SOURCE = files(__package__).joinpath("engine_key_program.py").read_text(encoding="utf-8")

KEY_FOLDER = "/engine-key"
"""Where the Secret with the key is mounted in engines' pods."""
KEY_ENTRY = "key"
"""The entry of the Secret, and the name of its file."""
KEY_FILE = f"{KEY_FOLDER}/{KEY_ENTRY}"
MIDDLEWARE = "inference_operator_engine_key.EngineKey"
"""The middleware's class, as the started command can import it."""


def keyed_start(command: Sequence[str], model: str) -> tuple[str, ...]:
    """The command of an engine, which can import the middleware.

    Args:
        command: the engine's own command.
        model: a name of its model, for the probe request.

    Examples:
        >>> print(*keyed_start(("vllm", "serve"), "qwen")[5:])
        file=/engine-key/key model=qwen -- vllm serve
    """
    program = program_command(KEY_PROGRAM, starts_another=True)
    return (*program, f"file={KEY_FILE}", f"model={model}", "--", *command)
