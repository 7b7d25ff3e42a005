"""The load of `infd drill`, at addresses of this machine and of its clusters only.

    load = Load("10.96.1.2:80", "tiny")
    load.learn()
    with load.phase("a pod is deleted", at_least=500, seconds=120) as phase:
        delete_the_pod()
        phase.mark()
    print(phase.result)

Half of the requests stream. Half use kept connections, the others new ones.
"""

from typing import Any

from e2e.load.target import base_url
from inference_operator.cli.drill import load
from inference_operator.cli.drill.answer import CheckedAnswer as Answer
from inference_operator.cli.drill.answer import LoadError, Loss
from inference_operator.cli.drill.load import GENTLE_PAUSE_SECONDS
from inference_operator.cli.drill.load import LoadPhase as Phase
from inference_operator.cli.drill.promises import Fault
from inference_operator.cli.drill.result import Result

__all__ = ["GENTLE_PAUSE_SECONDS", "Answer", "Fault", "Load", "LoadError", "Loss", "Phase", "Result"]


class Load(load.NumberedLoad):
    """Completions of one model at an address, host and port, of this machine's clusters."""

    def __init__(self, address: str, model: str, **options: Any) -> None:  # noqa: ANN401 - as the generator's
        super().__init__(base_url(address), model, **options)
