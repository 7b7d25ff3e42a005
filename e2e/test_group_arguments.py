"""The command line of each pod of an engine over several nodes, through vLLM's own configuration classes.

vLLM decides as on the named GPUs, which are not there (`vllm_parser/derive.py`). So this proves what vLLM takes the
arguments for, and no exchange between pods.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.engines import vllm_options
from e2e.test_derived_sizes import LEADER, MODELS, arguments_of, entry_of
from inference_operator.cli.offline import offline_inputs
from inference_operator.engines.registry import ENGINES
from inference_operator.hardware.kinds import kind_named
from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.settings import Settings
from inference_operator.units import GIB

DENSE, EXPERTS, R1 = "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-R1"


@dataclass(frozen=True)
class Topology:
    """Requested sizes on nodes with some GPUs, and what the ranks of the last pod are for vLLM."""

    model: str
    parallelism: Manifest
    gpus: int
    last: Manifest

    @property
    def nodes(self) -> int:
        """Pods of the engine."""
        return int(self.parallelism.get("nodes", 1))


TOPOLOGIES = {
    "a stage on each node": Topology(
        DENSE, {"tensor": 8, "nodes": 2}, 8, {"node_rank_within_dp": 1, "local_world_size": 8, "data_parallel_size": 1}
    ),
    "tensor parallelism over nodes": Topology(
        DENSE,
        {"tensor": 16, "pipeline": 1, "nodes": 2},
        8,
        {"node_rank_within_dp": 1, "local_world_size": 8, "pipeline_parallel_size": 1},
    ),
    "one GPU of a layer on each node": Topology(
        DENSE, {"tensor": 2, "pipeline": 1, "nodes": 2}, 1, {"node_rank_within_dp": 1, "local_world_size": 1}
    ),
    "data parallel ranks on one node": Topology(
        EXPERTS, {"data": 8}, 8, {"data_parallel_size_local": 8, "data_parallel_rank": 0, "local_world_size": 1}
    ),
    "data parallel ranks over nodes": Topology(
        R1,
        {"data": 16, "nodes": 2},
        8,
        {"data_parallel_size_local": 8, "data_parallel_rank": 8, "node_rank_within_dp": 0, "local_world_size": 1},
    ),
    "data parallel ranks of two GPUs over nodes": Topology(
        EXPERTS,
        {"data": 8, "tensor": 2, "nodes": 4},
        8,
        {"data_parallel_size_local": 2, "data_parallel_rank": 6, "node_rank_within_dp": 0, "local_world_size": 2},
    ),
    "one data parallel rank on each node": Topology(
        EXPERTS,
        {"data": 2, "tensor": 4, "nodes": 2},
        4,
        {"data_parallel_size_local": 1, "data_parallel_rank": 1, "node_rank_within_dp": 0, "local_world_size": 4},
    ),
}


def commands(topology: Topology, folder: Path) -> list[list[str]]:
    """The arguments of vLLM in each pod."""
    model = next(one for one in MODELS if one["model"] == topology.model)
    entry = entry_of(model, folder / topology.model)
    metadata = {"name": "m", "namespace": "default"}
    raw = {"apiVersion": "inference-operator.dev/v1alpha1", "kind": "InferenceDeployment", "metadata": metadata}
    spec = {"model": {"source": "pvc://models/x"}, "parallelism": topology.parallelism}
    settings = Settings(gpu_offers=(f"H100:{topology.gpus}",))
    found = outcome(offline_inputs({**raw, "spec": spec}, settings, ENGINES, model=entry))
    assert isinstance(found, Planned), found
    assert found.plan.plan.gpus_per_pod == topology.gpus or topology.nodes == 4
    return [arguments_of(found, rank) for rank in range(topology.nodes)]


def derived(lists: list[tuple[Topology, list[str]]], folder: Path) -> list[Manifest]:
    """What vLLM derives from each list of arguments."""
    gpu = kind_named("H100")
    assert gpu
    answers = {
        "name": gpu.name,
        "memory_bytes": int(gpu.memory_gib * GIB),
        "capability": gpu.capability,
        "linked": True,
    }
    cases = [
        {
            "model": topology.model,
            "files": next(one["files"] for one in MODELS if one["model"] == topology.model),
            "arguments": arguments,
            "gpu": {**answers, "count": topology.gpus},
        }
        for topology, arguments in lists
    ]
    found: list[Manifest] = vllm_options.derived(cases, folder)["derived"]
    return found


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What vLLM derives for each pod of each topology."""
    folder = tmp_path_factory.mktemp("groups")
    pods = [(name, one) for name, topology in TOPOLOGIES.items() for one in commands(topology, folder)]
    results = derived([(TOPOLOGIES[name], arguments) for name, arguments in pods], folder)
    found: dict[str, list[Any]] = {name: [] for name in TOPOLOGIES}
    for (name, _), result in zip(pods, results, strict=True):
        found[name].append(result)
    return found


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_vllm_reads_in_each_pod_the_ranks_that_the_plan_means(answers: dict[str, list[Any]], name: str) -> None:
    topology, pods = TOPOLOGIES[name], answers[name]
    assert [one.get("error") for one in pods] == [None] * topology.nodes
    parallel = [one["parallel"] for one in pods]
    assert [one["node_rank"] for one in parallel] == list(range(topology.nodes))
    for one in parallel:
        assert one["distributed_executor_backend"] in ("mp", "uni")
        assert (one["data_parallel_hybrid_lb"], one["data_parallel_external_lb"]) == (False, False)
        assert one["nnodes"] == topology.nodes
        assert one["enable_expert_parallel"] == ("data" in topology.parallelism)
        for size in ("tensor", "data"):
            assert topology.parallelism.get(size) in {None, one[f"{size}_parallel_size"]}
        if topology.nodes > 1:
            assert one["master_addr"] == LEADER
            assert one["data_parallel_master_ip"] == LEADER or one["data_parallel_size"] == 1
    ranks = parallel[0]["data_parallel_size_local"]
    assert [one["data_parallel_rank"] for one in parallel if "data" in topology.parallelism] == [
        ranks * pod for pod in range(topology.nodes) if "data" in topology.parallelism
    ]
    assert topology.last.items() <= parallel[-1].items()
