"""The registry of engines: resolves the engine name that a pinned plan carries."""

from collections.abc import Mapping
from dataclasses import dataclass

from inference_operator.api.engine_kind import EngineKind
from inference_operator.engines.base import Engine
from inference_operator.engines.llama_cpp.llama_cpp import API_PATHS as LLAMA_CPP_PATHS
from inference_operator.engines.llama_cpp.llama_cpp import LlamaCpp
from inference_operator.engines.options import OptionClasses, joint_classes
from inference_operator.engines.sglang.sglang import API_PATHS as SGLANG_PATHS
from inference_operator.engines.sglang.sglang import SGLang
from inference_operator.engines.transformers.transformers import API_PATHS as TRANSFORMERS_PATHS
from inference_operator.engines.transformers.transformers import Transformers
from inference_operator.engines.vllm.vllm import API_PATHS as VLLM_PATHS
from inference_operator.engines.vllm.vllm import Vllm

VLLM = str(EngineKind.VLLM)


@dataclass(frozen=True, slots=True)
class EngineRegistry:
    by_name: Mapping[str, Engine]
    """In the order in which `Auto` tries them; the default comes first."""
    default: str
    """Name of the engine that `Auto` means for a model about which nothing is known."""
    never_chosen: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> Engine:
        return self.by_name[name]

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def get(self, name: str) -> Engine | None:
        return self.by_name.get(name)

    def of_kind(self, kind: EngineKind) -> str:
        return self.default if kind is EngineKind.AUTO else str(kind)

    @property
    def in_order(self) -> tuple[str, ...]:
        others = (name for name in self.by_name if name != self.default and name not in self.never_chosen)
        return (self.default, *others)

    @property
    def option_classes(self) -> Mapping[str, OptionClasses]:
        """The classes of options by `spec.engine.kind`; those of `Auto` hold for every engine that it can become."""
        own = {name: engine.option_classes for name, engine in self.by_name.items()}
        return {str(EngineKind.AUTO): joint_classes(own[name] for name in self.in_order), **own}


ENGINES = EngineRegistry(
    {
        VLLM: Vllm(),
        str(EngineKind.TRANSFORMERS): Transformers(),
        str(EngineKind.LLAMA_CPP): LlamaCpp(),
        str(EngineKind.SGLANG): SGLang(),
    },
    default=VLLM,
    never_chosen=frozenset({str(EngineKind.SGLANG)}),
)
API_PATHS = tuple(dict.fromkeys((*VLLM_PATHS, *TRANSFORMERS_PATHS, *LLAMA_CPP_PATHS, *SGLANG_PATHS)))
