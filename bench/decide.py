"""CPU time of one reconcile of a resource that serves, step by step: `python -m bench.decide`.

A resource has one ready engine on a GPU and two ready routers, its model was inspected, and nothing is left to do: most
reconciles are of this kind. One resource has only a model, the other one also autoscaling with a schedule, keys with
limits, a queue, sidecars and rules of scheduling. An in-memory cluster stands for the API server. CPU time, the best of
some rounds.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from bench.balancers import EVERYTHING
from bench.figures import Figure, at_most, parser_of, shown
from inference_operator.api.reasons import ConditionType
from inference_operator.controller.changes import changes
from inference_operator.controller.cluster import NotFoundError
from inference_operator.manifest import POD, Manifest, Ref
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.settings import ModelInspection, Settings
from inference_operator.status.report import report
from tests.controller.world import RESOURCE, World
from tests.testing.builders import ENGINES, KEY, ROUTERS, model_known, ready_pod
from tests.testing.everything import POD_TEMPLATE, SCHEDULING

ROUNDS, CALLS = 10, 20
"""The fastest of so many rounds counts, each with so many calls."""
SPECS: Mapping[str, Manifest] = {
    "model only": {},
    "many features": {
        "router": EVERYTHING,
        "scheduling": {"priorityClassName": "high", "topologySpread": SCHEDULING["topologySpread"]},
        "podTemplate": POD_TEMPLATE,
        "autoscaling": {
            "minReplicas": 1,
            "maxReplicas": 2,
            "schedule": [
                {"start": "0 8 * * 1-5", "end": "0 18 * * 1-5", "timeZone": "Europe/Berlin", "minReplicas": 2}
            ],
        },
    },
}
"""Specifications beside the model."""
DECISION_AIM = at_most(4)
"""Milliseconds. 1,000 resources that are all reconciled again then take 4 s, as long as a listing of their objects."""


def main(arguments: Sequence[str]) -> int:
    """Print the figures; returns the exit status."""
    parser = parser_of("python -m bench.decide", "CPU time of one reconcile of a resource that serves.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="measurements of each step; the fastest counts")
    asked = parser.parse_args(arguments)
    worlds = {name: asyncio.run(serving(spec)) for name, spec in SPECS.items()}
    figures = [figure for name, world in worlds.items() for figure in measured(name, world, asked.rounds)]
    print(shown(figures, asked.output))
    return int(any(figure.aim and not figure.aim.met_by(figure.value) for figure in figures))


async def serving(spec: Manifest) -> World:
    """A resource that serves and for which nothing is left to do.

    Args:
        spec: its specification beside the model.

    Raises:
        AssertionError: it is not Ready, or something would be written: another path would be measured.
    """
    world = World()
    world.settings = Settings(model_inspection=ModelInspection.ALWAYS)
    await world.restart()
    world.ask(**spec)
    world.cluster.apply_as("inspection", model_known(world.live(RESOURCE)))
    await world.settle()
    for deployment in (ENGINES, ROUTERS):
        _start_pods(world, deployment)
    world.pods_are_ready()
    await world.settle()
    conditions = world.conditions()
    if conditions[ConditionType.READY][0] != "True" or await world.settle():
        raise AssertionError(f"the resource is not settled: {conditions}")
    return world


def _start_pods(world: World, deployment: Ref) -> None:
    """Act as the ReplicaSet and the kubelet: create the pods of a Deployment, all of them ready."""
    spec = world.live(deployment)["spec"]
    for number in range(spec["replicas"]):
        ref = Ref(POD, deployment.namespace, f"{deployment.name}-{number}")
        meta = {**spec["template"]["metadata"], "name": ref.name, "namespace": ref.namespace}
        world.cluster.apply_as("replicaset", {"apiVersion": "v1", "kind": "Pod", **spec["template"], "metadata": meta})
        world.cluster.set_status(ref, ready_pod())


def measured(name: str, world: World, rounds: int) -> list[Figure]:
    """The figures of one resource, which has a name."""

    def read() -> Inputs:
        found = world.cache.inputs(KEY, now=world.now)
        if found is None:
            raise NotFoundError(str(KEY))
        return found

    inputs = read()
    decided = outcome(inputs)
    if not isinstance(decided, Planned):
        raise TypeError(f"nothing is planned: {decided}")
    steps: dict[str, Callable[[], object]] = {
        "inputs from the cache": read,
        "decision (outcome)": lambda: outcome(inputs),
        "comparison with live objects (changes)": lambda: changes(
            inputs.children, decided.desired, decided.pods, inputs.resource.owner
        ),
        "status (report)": lambda: report(inputs, decided, []),
    }
    taken = {step: _best_ms(call, rounds) for step, call in steps.items()}
    both = taken["decision (outcome)"] + taken["status (report)"]
    return [
        *(Figure(f"{name}: {step}", value, "ms") for step, value in taken.items()),
        Figure(f"{name}: decision and status", both, "ms", DECISION_AIM),
        Figure(f"{name}: all steps", sum(taken.values()), "ms"),
    ]


def _best_ms(step: Callable[[], object], rounds: int) -> float:
    """Milliseconds of CPU for one call."""
    taken = []
    for _ in range(rounds):
        begin = time.process_time()
        for _ in range(CALLS):
            step()
        taken.append(time.process_time() - begin)
    return 1000 * min(taken) / CALLS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
