"""The cause of a container's end, from its output: status, Events and `infd logs` have the same words.

Rules, the first that applies:

1. A known error, in the termination message or in the log.
2. Any other error, of the innermost process (`engines/root_error.py`). The log has more of it than the termination
   message, which is its end and often only what the outermost process says.
3. Such an error is the engine's refusal of its configuration if all of these apply: the engine has never served in
   this pod; the last frame of the traceback is in the engine's own package; and the statement there raises the error.
   So what a library, the driver or a model's own code raises, and a mistake such as a missing key, is no refusal.
   Errors about the surroundings of an engine (files, connections, memory, time) are none either: they may pass.
"""

from inference_operator.api.reasons import Reason
from inference_operator.engines.base import Engine
from inference_operator.engines.root_error import root_error
from inference_operator.engines.start_log import Diagnosis


def known_end(engine: Engine, message: str, log: str) -> Diagnosis | None:
    return engine.diagnose(message) or engine.diagnose(log)


def unknown_end(engine: Engine | None, output: str, *, has_served: bool) -> Diagnosis | None:
    """The cause of a container's end, by rules 2 and 3 at the top of this module; None without any output.

    Args:
        engine: the engine that the container ran; None for other containers.
        output: the log, or the termination message where there is no log.
    """
    error = root_error(output)
    if error is None:
        return None
    own = engine is not None and any(path in error.file for path in engine.code_paths)
    refused = own and error.is_decision and not has_served
    return Diagnosis(Reason.CONFIGURATION_REFUSED if refused else Reason.CRASH_LOOP, error.text)
