"""A load generator that keeps many completions in flight and counts every lost one.

A request is *lost* if its connection fails, if its status is neither 2xx nor the documented 429, if its answer is
incomplete (a stream: without `data: [DONE]`), or if its text differs from the answer to the same prompt without load.

    load = Load("10.96.1.2:80", "tiny")
    load.learn()
    with load.phase("a pod is deleted", at_least=500, seconds=120) as phase:
        delete_the_pod()
        phase.mark()
    print(phase.result)

Half of the requests stream. Half use kept connections, the others new ones. Load goes only to addresses of this machine
and of its clusters.
"""

from e2e.load.answer import Answer, Loss
from e2e.load.errors import LoadError
from e2e.load.load import GENTLE_PAUSE_SECONDS, Load, Phase
from e2e.load.result import Result

__all__ = ["GENTLE_PAUSE_SECONDS", "Answer", "Load", "LoadError", "Loss", "Phase", "Result"]
