"""A model whose image must be signed: its InferenceDeployment, its key, and the end of its Jobs."""

from dataclasses import replace

from inference_operator.manifest import Manifest, Ref
from inference_operator.objects.names import VERIFICATION
from inference_operator.pipeline.inputs import Inputs
from inference_operator.views.lookups import ConfigMapLookup, ConfigMapText
from inference_operator.views.pod import PodView
from tests.testing.builders import inference_deployment, inputs
from tests.testing.inspected import over

DIGEST = f"sha256:{'0123456789abcdef' * 4}"
REFERENCE = f"registry.example/models/qwen@{DIGEST}"
PUBLIC_KEY = "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n"
KEY_LOOKUP = ConfigMapLookup("default", "keys", "cosign.pub")
UNSIGNED = "WARNING: Skipping tlog verification\nError: no signatures found\nerror during command execution: no sig"
"""The end of cosign's log for an image without a signature."""


def signed_model(**more: object) -> Manifest:
    """An InferenceDeployment of this image; `more` are further fields of its spec."""
    raw = inference_deployment(hardware={"device": "CPU"})
    model = {"source": f"oci://{REFERENCE}", "verify": {"configMapRef": {"name": "keys"}}}
    return {**raw, "spec": {**raw["spec"], "model": model, **more}}


def with_key(asked: Inputs, text: str = PUBLIC_KEY) -> Inputs:
    """The same, once the key has been read."""
    return replace(asked, lookups={KEY_LOOKUP: ConfigMapText(text)})


def ended(asked: Inputs, job: Manifest, said: str = "", *, kind: str = "Failed") -> Inputs:
    """The same after the Job has ended with this termination message."""
    name = f"{job['metadata']['name']}-x"
    failed = kind == "Failed"
    pod = PodView(name, VERIFICATION, None, ready=False, terminating=False, failed=failed, problem=None)
    children = {**asked.children, Ref.of(job): {**job, "status": over(kind)}}
    return replace(asked, children=children, pods=(replace(pod, termination_message=said),))


def asked_for() -> Inputs:
    """A first start."""
    return inputs(signed_model())
