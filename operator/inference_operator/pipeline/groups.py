"""Whether a role's engines can be groups of pods: the name, the claim and the engine must allow it."""

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.engines.base import Engine
from inference_operator.objects.names import MAX_NAME_OF_GROUPS
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_claim import one_node_claim
from inference_operator.sizing.plan import Plan

FEWER_NODES = "or set `spec.parallelism.nodes` to 1, if the model fits on one node"


def refusal_of_groups(inputs: Inputs, engine: Engine, spec: Spec, plan: Plan) -> Refusal | None:
    name, nodes = inputs.resource.key.name, plan.parallel.nodes
    if nodes == 1:
        return None
    if len(name) > MAX_NAME_OF_GROUPS:
        problem = f"has {len(name)} characters; engines over {nodes} nodes allow at most {MAX_NAME_OF_GROUPS}."
        return Refusal(Reason.INVALID_SPEC, "metadata.name", problem, f"Use a shorter name, {FEWER_NODES}.")
    if claim := one_node_claim(inputs, spec):
        problem = f"the pods of an engine are on {nodes} nodes, and only pods on one node can mount claim `{claim}`."
        cure = f"Use a claim with the access mode ReadWriteMany or ReadOnlyMany, {FEWER_NODES}."
        return Refusal(Reason.VOLUME_UNAVAILABLE, "spec.cache", problem, cure)
    return engine.check_member(spec.engine)
