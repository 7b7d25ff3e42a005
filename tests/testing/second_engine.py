"""A second engine and a second role that no file of the operator names.

`python -m tests.testing.second_engine` runs the operator with both.
"""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from inference_operator.api.engine import EngineSpec
from inference_operator.api.hardware import Device
from inference_operator.api.model import ModelSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.app import main
from inference_operator.cli.main import main as infd
from inference_operator.engines.base import Engine
from inference_operator.engines.model_access import HubAccess
from inference_operator.engines.options import OptionClasses
from inference_operator.engines.process import FRONT, EngineProcess, Front, ProbeRequest, ServedModel, Timeouts
from inference_operator.engines.registry import ENGINES, VLLM, EngineRegistry
from inference_operator.engines.series import series
from inference_operator.engines.start_log import KnownError, Phase
from inference_operator.engines.telemetry import EngineSeries
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.hardware.offers import GpuOffer
from inference_operator.manifest import Manifest
from inference_operator.models.facts import ModelFacts
from inference_operator.objects.names import ENGINE
from inference_operator.roles.spec import RoleSpec, role_spec
from inference_operator.settings import Settings
from inference_operator.sizing.budget import EngineOnGpus
from inference_operator.sizing.cpu import CpuNeeds
from inference_operator.sizing.learned import Shortage
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.shape import Shape
from inference_operator.views.samples import EngineSample

ECHO = "ECHO"
PORT, USER, MAX_CONCURRENCY = 9000, 1234, 16
IMAGE = "example.com/echo:1"


@dataclass(frozen=True, slots=True)
class Echo(Engine):
    """An engine that shares nothing with vLLM but its memory arithmetic."""

    unsupported_fields = frozenset({"kvCacheDtype"})
    divides_models = True
    option_classes = OptionClasses(
        frozenset({"--delay"}), frozenset({"--listen"}), frozenset({"ECHO_DELAY"}), frozenset()
    )
    needs_inspection = False
    code_paths = ("-packages/echo/",)
    errors = (KnownError(Reason.GPU_OUT_OF_MEMORY, re.compile("faded"), "the echo faded"),)
    phases = MappingProxyType({Phase.LOADING: re.compile("listening")})
    startup_hints = MappingProxyType({Phase.LOADING: "Shout."})
    loaded = re.compile(r"(\d+) of 100 echoes")
    series = EngineSeries(running="echoes")

    def check(self, spec: EngineSpec, *, image: str, settings: Settings) -> Refusal | None:  # noqa: ARG002 - protocol
        return None

    def on_gpus(self, image: str, offer: GpuOffer, *, reported_gib: float = 0.0) -> EngineOnGpus:
        return Vllm().on_gpus(image, offer, reported_gib=reported_gib)

    def cpu_needs(self, facts: ModelFacts | None, shape: Shape) -> CpuNeeds:
        return Vllm().cpu_needs(facts, shape)

    def shape(self, spec: EngineSpec) -> Shape:
        return Vllm().shape(spec)

    def image(self, device: Device, settings: Settings) -> str:  # noqa: ARG002 - protocol
        return IMAGE

    def process(
        self,
        spec: EngineSpec,  # noqa: ARG002 - protocol
        plan: Plan,  # noqa: ARG002 - protocol
        served: ServedModel,
        timeouts: Timeouts,
        at: Front = FRONT,  # noqa: ARG002 - protocol
    ) -> EngineProcess:
        return EngineProcess(
            user=USER,
            group=USER,
            port=PORT,
            max_concurrency=MAX_CONCURRENCY,
            command=("echo-server",),
            args=(served.model,),
            env=(),
            health_path="/alive",
            model_names=(served.name,),
            api_paths=("/echo",),
            writable=("/scratch",),
            startup_seconds=timeouts.startup,
            pre_stop=("echo-stop",),
            stop_seconds=timeouts.dns_staleness + timeouts.drain,
        )

    def access(self, spec: EngineSpec, model: ModelSpec | None = None) -> HubAccess:  # noqa: ARG002 - protocol
        return HubAccess(user=USER, group=USER, env=(), writable=("/scratch",), revision=None)

    def shortage(self, log: str) -> Shortage | None:
        return Shortage(longest=64) if "too loud" in log else None

    def sample(self, metrics_text: str) -> EngineSample | None:
        found = [int(one.value) for one in series(metrics_text, ["echoes"])]
        return EngineSample("echo", running=sum(found), waiting=0, progress=(0.0,)) if found else None

    def probe_request(self, model: str) -> ProbeRequest | None:
        return ProbeRequest("/echo", {"model": model})


REGISTRY = EngineRegistry({**ENGINES.by_name, ECHO: Echo()}, default=ECHO)
"""The engines of the release and the second one, which is the default."""

HELPER, HELPER_IMAGE = "helper", "registry.example/echo:1"
HELPER_REPLICAS, HELPER_TENSOR = 3, 2
HELPER_SPEC: Manifest = {
    "replicas": HELPER_REPLICAS,
    "parallelism": {"tensor": HELPER_TENSOR},
    "engine": {"image": HELPER_IMAGE},
    "autoscaling": None,
}
HELPER_ANNOTATION = "tests.example/helper"
"""An annotation in `spec.podTemplate` with more fields of the second role; `null` says that there is no such role."""


def helper_annotation(own: Manifest | None) -> Manifest:
    """The pod template by which a specification asks for the second role."""
    return {"annotations": {HELPER_ANNOTATION: json.dumps(own)}}


def two_roles(stated: Spec, settings: Settings, _engines: EngineRegistry) -> Sequence[RoleSpec]:
    """The usual role by vLLM, and one more by the second engine, with an image, sizes and a number of its own."""
    annotations = dict(stated.pod_template.annotations)
    own = json.loads(annotations.pop(HELPER_ANNOTATION, "{}"))
    pods = stated.pod_template.model_copy(update={"annotations": annotations})
    stated = stated.model_copy(update={"pod_template": pods})
    usual = role_spec(ENGINE, VLLM, stated, settings, has_scale=True)
    if own is None:
        return (usual,)
    weight = own.pop("weight", 1)
    fields = stated.model_dump(by_alias=True, exclude_unset=True)
    helper = Spec.model_validate({**fields, **HELPER_SPEC, **own})
    return (usual, role_spec(HELPER, ECHO, helper, settings, weight=weight))


BOTH = replace(REGISTRY, default=VLLM)

if __name__ == "__main__":
    if sys.argv[1:2] == ["infd"]:
        infd(sys.argv[2:], REGISTRY)
    main(BOTH, two_roles)
