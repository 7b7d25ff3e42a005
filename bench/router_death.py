"""What the death of a router's HAProxy costs: requests lost, by when they were sent and how.

    python -m bench.router_death [--runs N] [--output text|json]

On a real node (root), with the sample for CPUs and its two routers, and 64 requests in flight, half of them
streams. Each run sends SIGKILL to every process of one of a router's containers, as the kernel does when its memory
ends, and goes on until it has been started again.
"""

import sys
from collections.abc import Sequence

from bench.figures import Figure, parser_of, shown
from e2e import stack
from e2e.faults import kill_container
from e2e.load import Load, Loss, Result
from e2e.served import Served

RUNS = 8
ROUTERS = 2
BEFORE, AFTER = 200, 1000
"""Requests answered before a kill, and after it: several seconds."""
RUN_SECONDS = 300


def main(arguments: Sequence[str]) -> int:
    """Measure, and print."""
    parser = parser_of("python -m bench.router_death", "What a router's death costs.")
    parser.add_argument("--runs", type=int, default=RUNS, help="kills")
    asked = parser.parse_args(arguments)
    results = measured(asked.runs)
    if asked.output == "text":
        print(*results, sep="\n")
    print(shown(figures(results), asked.output))
    return 0


def measured(runs: int) -> list[Result]:
    """One result for each kill, on the tests' cluster."""
    with stack.tests_cluster() as cluster:
        cluster.kubectl("apply", "--filename", str(stack.SAMPLE))
        served = Served(cluster, stack.SAMPLE_NAME)
        stack.wait_ready(cluster, served.name)
        load = Load(served.address, served.name)
        load.learn()
        return [_killed(served, load, number) for number in range(1, runs + 1)]


def figures(results: Sequence[Result]) -> list[Figure]:
    """All kills together."""
    lost = [answer for result in results for answer in result.lost]
    return [
        Figure("kills", len(results), "kills"),
        Figure("requests", sum(result.sent for result in results), "requests"),
        Figure("lost", len(lost), "requests"),
        Figure("most lost by one kill", max((len(result.lost) for result in results), default=0), "requests"),
        Figure("refused", sum(answer.loss is Loss.REFUSED for answer in lost), "requests", 0),
        Figure("lost of those sent after the kill", sum(len(r.lost_later) for r in results), "requests", 0),
    ]


def _killed(served: Served, load: Load, number: int) -> Result:
    served.await_routers(ROUTERS)
    with load.phase(f"kill {number}", at_least=BEFORE, seconds=RUN_SECONDS) as phase:
        phase.await_answers(BEFORE)
        kill_container(served.cluster, sorted(served.pods("router"))[number % ROUTERS])
        phase.mark()
        phase.await_answers(AFTER)
        served.await_routers(ROUTERS)
        phase.await_answers(BEFORE)
    return phase.result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
