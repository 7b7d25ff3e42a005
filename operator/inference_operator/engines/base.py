"""An inference engine such as vLLM: the class that each kind of engine extends.

1. What an engine does not say is the default of this class: what most engines are.
2. Attributes are facts that hold for each of its versions. What depends on an image or a specification is a method.
3. Only what each engine must say for itself is abstract.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from inference_operator.api.engine import EngineSpec
from inference_operator.api.hardware import Device
from inference_operator.api.model import ModelSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.engines.environment import with_defaults
from inference_operator.engines.model_access import TEMPORARY, HubAccess, Support, access_variables, bucket_keys
from inference_operator.engines.options import ImportedArguments, OptionClasses, OptionRule
from inference_operator.engines.process import FRONT, EngineProcess, Front, Parsers, ProbeRequest, ServedModel, Timeouts
from inference_operator.engines.series import series
from inference_operator.engines.start_log import (
    Diagnosis,
    KnownError,
    LoadProgress,
    Phase,
    diagnosis_of,
    latest_phase,
    loaded_part,
)
from inference_operator.engines.telemetry import EngineLoad, EngineSeries, MetricsPage, engine_load
from inference_operator.hardware.needs import GpuNeeds
from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.checkpoint import WeightFormat, format_of
from inference_operator.models.facts import ModelFacts
from inference_operator.settings import Settings
from inference_operator.sizing.budget import EngineOnGpus
from inference_operator.sizing.cpu import CpuNeeds
from inference_operator.sizing.learned import Shortage
from inference_operator.sizing.plan import Drafting, Plan
from inference_operator.sizing.shape import Shape
from inference_operator.views.samples import EngineSample

NO_DATA_PARALLEL = Refusal(
    Reason.INVALID_PARALLEL_SIZE,
    "spec.parallelism.data",
    "This engine has no data parallel ranks.",
    "Remove it, or set `spec.engine.kind: VLLM`.",
)
"""The refusal by engines that the operator runs with one data parallel rank."""

OF_VLLM = frozenset(
    {"adapterSlots", "generation", "kvOffload", "maxAdapterRank", "multimodal", "ropeScaling", "speculative"}
)
"""The fields of `spec.engine` that only vLLM honours."""
OF_GPU_ENGINES = OF_VLLM | {
    *("cpuOffloadGiB", "gpuMemoryUtilization", "kvCacheDtype", "quantization", "reasoningParser", "toolCallParser")
}
"""Those that only vLLM and SGLang honour."""


class Engine(ABC):
    __slots__ = ()

    # The specification

    devices: frozenset[Device] = frozenset(Device)
    unsupported_fields: frozenset[str] = frozenset()
    """The fields of `spec.engine` that the engine cannot honour, by their names in a manifest."""
    divides_models: bool = False
    runs_over_nodes: bool = False

    @property
    @abstractmethod
    def option_classes(self) -> OptionClasses:
        """The options and variables that everybody may set, and those that nobody may."""

    option_rules: Sequence[OptionRule] = ()
    """Who may set each option and variable, with its effect, for `infd arguments`."""

    @abstractmethod
    def check(self, spec: EngineSpec, /, *, image: str, settings: Settings) -> Refusal | None:
        """Why this image's engine cannot run the specification; None if it can."""

    def check_fields(self, spec: EngineSpec) -> Refusal | None:
        stated = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        for name in sorted(self.unsupported_fields & stated.keys()):
            problem = f"This engine does not support the field `{name}`."
            return Refusal(Reason.INVALID_SPEC, f"spec.engine.{name}", problem, "Remove it.")
        return None

    def check_member(self, spec: EngineSpec, /) -> Refusal | None:
        return None

    def check_transfer(self, spec: EngineSpec, own: Sequence[str], /, *, image: str) -> Refusal | None:
        """Why engines of this specification send each other no KV caches of prompts; None if they can.

        Args:
            own: arguments that the engines of prompts have beside the others'.
        """
        return None

    def check_data_parallel(self, spec: EngineSpec, /) -> Refusal | None:
        """Why an engine of this specification has no data parallel ranks; None if it can have several."""
        return NO_DATA_PARALLEL

    def imported(self, args: Sequence[str]) -> ImportedArguments:
        """The fields and arguments that those of a hand-written command become: the same arguments, by default."""
        return ImportedArguments(kept=list(args))

    # Sizes

    def gpu_needs(self, spec: EngineSpec, /, image: str) -> GpuNeeds:
        return GpuNeeds()

    @abstractmethod
    def on_gpus(self, image: str, offer: GpuOffer, *, reported_gib: float = 0.0) -> EngineOnGpus:
        """This image's engine on these GPUs; it uses more memory by what one reported beyond the estimate."""

    @abstractmethod
    def cpu_needs(self, facts: ModelFacts | None, shape: Shape) -> CpuNeeds:
        """The memory of an engine on CPUs, for a model that may be unknown."""

    def shape(self, spec: EngineSpec, /) -> Shape:
        """The engine's options that decide sizing, except the number of GPUs."""
        return Shape(
            context=spec.max_model_len,
            max_num_seqs=spec.max_num_seqs,
            max_num_batched_tokens=spec.max_num_batched_tokens,
        )

    # The model

    formats: frozenset[WeightFormat] = frozenset({WeightFormat.SAFETENSORS})
    needs_inspection: bool = True
    """Whether the engine starts otherwise if the model's files are known, on CPUs too."""
    requires_facts: bool = False
    """Whether the engine starts with no model whose files could not be read, whatever the user says."""

    environment: Mapping[str, str] = MappingProxyType({"HOME": TEMPORARY})
    """Variables of the engine's process, unless the specification has others."""
    writable: Sequence[str] = (TEMPORARY,)
    compiled: str = ""
    """Folder of all compiled kernels; empty if the engine keeps none."""

    def access(self, spec: EngineSpec, model: ModelSpec | None = None, /) -> HubAccess:
        """The engine's access to its model; without a model, to any."""
        env = with_defaults(spec.env, self.environment)
        return HubAccess(
            access_variables(env, model),
            self.writable,
            revision=model.revision if model else None,
            compiled=self.compiled,
            keys=bucket_keys(model.s3) if model else (),
        )

    def support(self, architecture: str, /, *, image: str) -> Support:
        """Whether this image's engine runs models of an architecture, by the name in their config."""
        return Support()

    def check_model(self, spec: EngineSpec, model: ModelSpec, /, *, cached: bool) -> Refusal | None:
        """Why this engine cannot have this model, from a claim without a hub if `cached`; None if it can."""
        return None

    def check_format(self, facts: ModelFacts) -> Refusal | None:
        weights = format_of(facts.weights_from)
        if weights in self.formats:
            return None
        readable = ", ".join(sorted(each.value for each in self.formats))
        problem = f"The weights are {weights.value}, which this engine does not read."
        return Refusal(Reason.INVALID_MODEL, "spec.model.source", problem, f"Use a model whose weights are {readable}.")

    def check_facts(self, facts: ModelFacts, /) -> Refusal | None:
        """Why the engine cannot run a model of an architecture that it supports; None if it can."""
        return None

    def as_served(self, facts: ModelFacts, spec: EngineSpec, model: str = "", /) -> ModelFacts:
        """The facts as the engine serves the model of this repository or path with this request."""
        return facts

    def resolved(self, spec: EngineSpec, facts: ModelFacts | None, model: str, /) -> EngineSpec | Refusal:
        """The request with what the model decides about speculative decoding, or why nothing fits it."""
        return spec

    def drafting(self, spec: EngineSpec, /) -> Drafting | None:
        return None

    def config_overrides(self, facts: ModelFacts, spec: EngineSpec, /) -> str:
        """The fields of the model's config that the engine must read in another way, as a JSON object; empty for none.

        Args:
            facts: the facts of the model itself.
        """
        return ""

    def remark(self, facts: ModelFacts, spec: EngineSpec, model: str, /) -> str:
        """What users of this model should know of how the engine serves it, in sentences; may be empty."""
        return ""

    def check_request(self, spec: EngineSpec, facts: ModelFacts, shape: Shape, /, *, image: str) -> Refusal | None:
        """Why the engine does not start this model as it is requested; None if it does.

        Args:
            shape: the request in the types of sizing, with the facts of the draft model.
        """
        return None

    # The process

    can_transfer: bool = False
    """Whether an engine can get the KV cache of a prompt from another one."""
    can_ask_for_key: bool = False
    """Whether it can ask for a key on every path but its health and its metrics."""

    @abstractmethod
    def image(self, device: Device, settings: Settings) -> str:
        """The image of this operator's settings for engines on the device."""

    def desired_image(self, spec: Spec, settings: Settings) -> str:
        return spec.engine.image or self.image(spec.hardware.device, settings)

    def advisories(self, image: str, /) -> str:
        """A notice about known vulnerabilities of the version in an image; empty: none is known."""
        return ""

    def doubt_of_tables(self, image: str, /) -> str:
        """A sentence that plans for this image follow the tables of another version; empty if they do not."""
        return ""

    def parsers(self, image: str, *, model: str, architecture: str) -> Parsers:
        """The parsers that this image's engine needs for the answers of a model; `model` is a repository or path."""
        return Parsers()

    @abstractmethod
    def process(
        self, spec: EngineSpec, /, plan: Plan, served: ServedModel, timeouts: Timeouts, at: Front = FRONT
    ) -> EngineProcess:
        """The process of one engine of this plan. The image in `spec` is the one that runs."""

    def probe_request(self, model: str) -> ProbeRequest | None:
        """The probe request to an engine that makes no progress, for the model of this name; None: it has none."""
        return ProbeRequest("/v1/completions", {"prompt": "1", "max_tokens": 1, **({"model": model} if model else {})})

    # The log of its start

    code_paths: Sequence[str] = ()
    """Parts of the paths of the engine's own Python files, as tracebacks have them; none for other programs."""
    errors: Sequence[KnownError] = ()
    """The messages with which it ends, the more specific pattern first."""
    phases: Mapping[Phase, re.Pattern[str]] = MappingProxyType({})
    """The message with which each phase begins, in the order of a start."""
    startup_hints: Mapping[Phase, str] = MappingProxyType({})
    """The cure, in a sentence, of a start that does not get beyond a phase."""
    loaded: re.Pattern[str] | None = None
    """The message about the loaded part of the weights: in percent, and the time that is left if it tells."""

    def diagnose(self, log: str) -> Diagnosis | None:
        """The cause of the engine's end, from the end of its log; None if the log shows no known error."""
        return diagnosis_of(log, self.errors)

    def shortage(self, log: str) -> Shortage | None:
        """The memory that the engine lacked at its start, from its log; None if the log reports none."""
        return None

    def phase(self, log: str) -> Phase | None:
        return latest_phase(log, self.phases)

    def load_progress(self, log: str) -> LoadProgress | None:
        return loaded_part(log, self.loaded) if self.loaded else None

    # Figures. Where it has none, those of the routers stand for them

    metrics_page: MetricsPage | None = MetricsPage()
    series: EngineSeries = EngineSeries()
    """The names of the engine's series, for recording rules and the queries of other autoscalers."""
    load_series: Sequence[str] = ()
    """The names of the series of `EngineLoad`, in the order of its fields; empty if it has not all of them."""
    steps: str = ""
    """Name of the counter that rises while the engine computes."""

    def sample(self, metrics_text: str, /) -> EngineSample | None:
        names = [name for name in (self.series.running, self.series.waiting, self.steps) if name]
        try:
            values = {figure.name: figure.value for figure in series(metrics_text, names)}
            running, steps = int(values[self.series.running]), values[self.steps]
            waiting = int(values[self.series.waiting]) if self.series.waiting else 0
        except (KeyError, ValueError, OverflowError):
            return None
        return EngineSample(model="", running=running, waiting=waiting, progress=(steps,))

    def load(self, metrics_text: str) -> EngineLoad | None:
        return engine_load(metrics_text, self.load_series) if self.load_series else None
