"""The children depend only on the present spec, not on earlier ones."""

import pytest

from inference_operator.controller.drift import first_drift
from inference_operator.manifest import CLAIM, Manifest, Ref
from inference_operator.objects.child import DESIRED_HASH_ANNOTATION
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.workload.rollout import ROLLOUT_ANNOTATION
from tests.controller.downloads import finish_downloads
from tests.controller.world import World
from tests.testing.builders import ENGINES, inference_deployment, inputs
from tests.testing.random_specs import Specs

HISTORIES = 40


def served(source: Specs) -> Manifest:
    """The next spec that the operator accepts; a refused spec changes no children."""
    drawn = ({**source.valid(), "paused": False} for _ in range(100))
    return next(spec for spec in drawn if isinstance(outcome(inputs(resource_of(spec))), Planned))


def resource_of(spec: Manifest) -> Manifest:
    return {**inference_deployment(), "spec": spec}


async def ask(world: World, spec: Manifest) -> None:
    fields = {name: value for name, value in spec.items() if name != "model"}
    world.ask(source="", **fields, model=spec["model"])
    await world.settle()
    await finish_downloads(world)


def remembered(children: dict[Ref, Manifest]) -> dict[Ref, Manifest]:
    """The children without what an edit leaves.

    That is the rollout strategy, which is decided when a rollout starts (architecture 4.13), and a claim.
    """
    children = {ref: child for ref, child in children.items() if ref.kind != CLAIM}
    if ENGINES not in children:
        return children
    found = children[ENGINES]
    notes = found["metadata"]["annotations"]
    kept = {name: value for name, value in notes.items() if name not in (ROLLOUT_ANNOTATION, DESIRED_HASH_ANNOTATION)}
    spec = {name: value for name, value in found["spec"].items() if name != "strategy"}
    return {**children, ENGINES: {**found, "metadata": {**found["metadata"], "annotations": kept}, "spec": spec}}


@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_different_edit_histories_of_one_spec_end_in_the_same_children(seed: int) -> None:
    source = Specs(seed)
    last = served(source)
    # Routers keep the server slots of the most engines that there were (architecture 4.8), and an autoscaler the
    # number that it decided (architecture 6).
    number = {"replicas": 1, **{name: last[name] for name in ("replicas", "autoscaling") if name in last}}
    drafts = [source.valid() for _ in range(2)]
    earlier = [{**{name: draft[name] for name in draft if name != "autoscaling"}, **number} for draft in drafts]
    direct, roundabout = World(), World()
    await ask(direct, last)
    for spec in (*earlier, last):
        await ask(roundabout, spec)
    one, other = remembered(dict(direct.children())), remembered(dict(roundabout.children()))
    assert (first_drift(one, other), first_drift(other, one)) == (None, None), (earlier, last)
    assert one == other
