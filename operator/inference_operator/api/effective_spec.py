"""The effective specification: what a resource states, over the administrator's defaults of pods.

It is a type of its own, so that a mix-up does not type-check. Hashes of requests are made from a `Spec`: a change of
the operator's settings then restarts nothing. Pods, Jobs and routers are built from an `EffectiveSpec`.
"""

from dataclasses import dataclass

from inference_operator.api.container import Environment
from inference_operator.api.engine import EngineSpec
from inference_operator.api.hardware import NetworkSpec
from inference_operator.api.model import ModelSpec
from inference_operator.api.pod_defaults import EngineDefaults, RouterDefaults, over, variables_over
from inference_operator.api.pod_template import PodTemplateSpec
from inference_operator.api.router import RouterSpec
from inference_operator.api.scheduling import SchedulingSpec
from inference_operator.api.spec import Spec


@dataclass(frozen=True, slots=True)
class EffectiveSpec:
    stated: Spec
    """The specification as its user wrote it. All sections that have no defaults are read from it."""
    engine: EngineSpec
    scheduling: SchedulingSpec
    pod_template: PodTemplateSpec
    router: RouterSpec
    network: NetworkSpec

    @property
    def model(self) -> ModelSpec:
        return self.stated.model

    def running_engine(self, image: str, env: Environment) -> EngineSpec:
        """The engine section with the image that runs, and with all variables that its pods get."""
        return self.engine.model_copy(update={"image": image, "env": env})


def effective_spec(stated: Spec, engines: EngineDefaults, routers: RouterDefaults) -> EffectiveSpec:
    env = variables_over(stated.engine.env, engines.env)
    return EffectiveSpec(
        stated=stated,
        engine=stated.engine.model_copy(update={"env": env}),
        scheduling=over(stated.scheduling, engines.scheduling),
        pod_template=over(stated.pod_template, engines.template),
        router=effective_router(stated.router, routers),
        network=over(stated.hardware.network, engines.network),
    )


def effective_router(stated: RouterSpec, defaults: RouterDefaults) -> RouterSpec:
    sections = (defaults.model_fields_set & RouterSpec.model_fields.keys()) - {"pod_template"}
    router = {name: over(getattr(stated, name), getattr(defaults, name)) for name in sections}
    router["pod_template"] = over(stated.pod_template, defaults.template)
    return stated.model_copy(update=router)
