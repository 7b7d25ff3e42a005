"""Models of the catalogue, GPU pools, and the engine memory settings for sizing tests."""

from dataclasses import replace

from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.hardware.kinds import kind_named
from inference_operator.hardware.offers import GpuOffer, offer_of_kind
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.sizing.budget import EngineOnGpus
from inference_operator.sizing.steptime import StepCosts
from tests.testing.collected import entry

VERSION = "0.32.0"


def model(name: str) -> ModelFacts:
    known = entry(name)
    assert known, name
    found = model_facts(known.config, known.weights)
    assert isinstance(found, ModelFacts)
    return found


def pool(text: str) -> list[GpuOffer]:
    """`H100:8` is a node of eight; `L4:4x3 T4:1` three nodes of four and one of one."""
    found = []
    for part in text.split():
        name, _, size = part.partition(":")
        count, _, nodes = size.partition("x")
        kind = kind_named(name)
        assert kind, name
        found.append(offer_of_kind(kind, per_node=int(count or 1), nodes=int(nodes or 1)))
    return found


def on_gpus(offer: GpuOffer) -> EngineOnGpus:
    return Vllm().on_gpus(f"vllm:v{VERSION}", offer)


def slowed(costs: StepCosts, factor: float) -> StepCosts:
    """The costs of a step that takes this many times as long, whatever is in it."""
    times = ("dense", "cached_token", "token", "fixed", "experts", "sequence", "attention", "exchange")
    windows = {window: factor * seconds for window, seconds in costs.windows.items()}
    return replace(costs, windows=windows, **{name: factor * getattr(costs, name) for name in times})
