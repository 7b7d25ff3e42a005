"""`status` of an InferenceDeployment: what users read back."""

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from inference_operator.api.conditions import Condition
from inference_operator.api.reasons import ConditionType
from inference_operator.api.spec import Device
from inference_operator.manifest import Manifest

NEVER_OBSERVED = -1
"""`observedGeneration` before the operator has seen the resource, so that kstatus answers InProgress."""


class _Part(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_alias=True, validate_by_name=True, frozen=True, extra="ignore"
    )


class PlanStatus(_Part):
    """The sizes that the engines run with."""

    device: Device = Field(description="What engines compute on.")
    tensor_parallel_size: int = Field(description="GPUs that one engine spreads its tensors over.")
    gpus_per_replica: int = Field(description="GPUs of one engine.")
    cpu: str = Field(description="CPU request of one engine.")
    memory: str = Field(description="Memory request of one engine.")
    ephemeral_storage: str = Field(description="Ephemeral storage request of one engine.")
    shared_memory: str = Field(description="Size of /dev/shm of one engine.")
    asked: str = Field(description="Fingerprint of the part of the spec that this plan answers.")


class EngineStatus(_Part):
    """The engine that runs."""

    image: str = Field(description="Container image; pinned until the specification of the engine changes.")


class Status(_Part):
    """What is, beside what was asked."""

    observed_generation: int = Field(
        NEVER_OBSERVED, description="The generation of the spec that this status is about."
    )
    conditions: tuple[Condition, ...] = Field(
        (),
        max_length=16,
        description="Ready, Reconciling and Stalled as kstatus reads them, and what they are made of.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    url: str | None = Field(None, description="Where the OpenAI API answers inside the cluster.")
    replicas: int = Field(0, description="Engine pods that exist.")
    ready_replicas: int = Field(0, description="Engine pods that are ready.")
    ready: str | None = Field(None, description="Ready engines of wanted engines, for people.")
    selector: str | None = Field(None, description="Selects the engine pods; used by `/scale`.")
    plan: PlanStatus | None = Field(None, description="The sizes that the engines run with.")
    engine: EngineStatus | None = Field(None, description="The engine that runs.")

    def condition(self, wanted: ConditionType) -> Condition | None:
        """The condition of a type, if it has been written."""
        return next((c for c in self.conditions if c.type == wanted), None)

    def dump(self) -> Manifest:
        """As JSON for the API server: camelCase, unset fields left out.

        Examples:
            >>> Status(observed_generation=3).dump()
            {'observedGeneration': 3, 'conditions': [], 'replicas': 0, 'readyReplicas': 0}
        """
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
