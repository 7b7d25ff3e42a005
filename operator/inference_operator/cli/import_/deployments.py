"""A Deployment that runs `vllm serve`, as an InferenceDeployment."""

from inference_operator.cli.import_.containers import is_vllm, put_model, take_container, take_pod
from inference_operator.cli.import_.origin import OPERATOR_SETS, Draft, ForeignObject
from inference_operator.cli.parser import UsageError

POD = ("spec", "template", "spec")


def from_deployment(origin: ForeignObject) -> Draft:
    """The draft of a Deployment.

    Raises:
        UsageError: no container runs vLLM.
    """
    draft = Draft()
    containers = origin.look(list, *POD, "containers") or []
    index = next((at for at, one in enumerate(containers) if isinstance(one, dict) and is_vllm(one)), None)
    if index is None:
        raise UsageError("no container of it runs vLLM.")
    draft.put("engine.kind", "VLLM")
    draft.put("replicas", origin.take(int, "spec", "replicas"))
    found = take_container(origin, draft, (*POD, "containers", index), POD)
    take_pod(origin, draft, POD)
    if found is not None:
        put_model(draft, found.model, "spec.template.spec.containers")
    for part in ("selector", "strategy", "revisionHistoryLimit", "progressDeadlineSeconds", "minReadySeconds"):
        origin.leave(OPERATOR_SETS, "spec", part)
    for at in range(len(containers)):
        if at != index:
            origin.leave("write it into `spec.podTemplate.sidecars` by hand.", *POD, "containers", at)
    origin.leave("write them into `spec.podTemplate` by hand, if something needs them.", "spec", "template", "metadata")
    return draft
