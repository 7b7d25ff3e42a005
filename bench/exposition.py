"""What a scrape of the operator costs: `python -m bench.exposition`.

The cache holds resources with all conditions, a GPU plan, a start under way and one engine pod each. Autoscaling has
decided about all of them. Collecting their metrics blocks the operator; the text is written in a thread. CPU time, the
best of some rounds.
"""

import sys
import time
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, generate_latest

from bench.figures import Figure, at_most, parser_of, shown
from inference_operator.api.reasons import ConditionType
from inference_operator.autoscaling.decision import Bound, Decision, Terms
from inference_operator.autoscaling.inputs import ScalingResult
from inference_operator.controller.cache import Cache
from inference_operator.objects.names import ENGINE, labels
from inference_operator.settings import Settings
from inference_operator.telemetry.resources import MAX_SERIES, ResourceMetrics
from tests.testing.builders import inference_deployment

ROUNDS = 5
BLOCKED_SECONDS = 0.1
"""A scrape must not delay a renewal of the Lease or a probe noticeably."""


def main(arguments: Sequence[str]) -> int:
    """Print the figures; returns the exit status."""
    parser = parser_of("python -m bench.exposition", "CPU time of a scrape of the operator.")
    parser.add_argument("--resources", type=int, default=1000)
    asked = parser.parse_args(arguments)
    metrics, registry = ResourceMetrics(), CollectorRegistry()
    metrics.resources, metrics.prices = _cache(asked.resources).figures, {"H100-80GB": 2.5}
    metrics.scaling = lambda _: ScalingResult(Decision(2, Bound.DEMAND, Terms(8, 6, 2), target_concurrency=8))
    registry.register(metrics)
    series = sum(len(family.samples) for family in metrics.collect())
    figures = [
        Figure("series of a resource", series / asked.resources, "", at_most(MAX_SERIES)),
        Figure("collecting", _best(lambda: list(metrics.collect())), "s", at_most(BLOCKED_SECONDS)),
        Figure("collecting and writing", _best(lambda: generate_latest(registry)), "s"),
        Figure("size of the page", len(generate_latest(registry)) / 2**20, "MiB"),
    ]
    print(shown(figures, asked.output))
    return int(any(figure.aim and not figure.aim.met_by(figure.value) for figure in figures))


def _best(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        work()
        taken.append(time.process_time() - begin)
    return min(taken)


def _cache(resources: int) -> Cache:
    cache = Cache(Settings())
    plan = {"device": "GPU", "gpu": "H100-80GB", "gpusPerReplica": 2}
    conditions = [{"type": kind, "status": "True", "reason": "Reason"} for kind in ConditionType]
    status = {"conditions": conditions, "plan": plan, "startup": {"step": "PullingImages"}}
    for number in range(resources):
        raw = {**inference_deployment(name=f"m{number}"), "status": status}
        raw["metadata"]["resourceVersion"] = "1"
        cache.put(raw)
        meta = {
            "name": f"p{number}",
            "namespace": "default",
            "uid": f"p{number}",
            "resourceVersion": "1",
            "labels": labels(f"m{number}", ENGINE),
        }
        cache.put({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": "n"}, "status": {}})
    return cache


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
