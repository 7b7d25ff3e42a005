"""A plan is decided once more after an engine reported too little memory, through the whole pipeline."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.manifest import Manifest, Ref
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.sizing.learned import Learned
from inference_operator.sizing.plan import Plan
from inference_operator.status.report import report
from inference_operator.views.lookups import FreeGpusLookup, LogText, Unavailable
from inference_operator.views.node import NodeView, node_view
from inference_operator.views.pod import PodView, pod_template_hash
from tests.engines.test_root_error import OUTER, QUOTED, VLLM, raised
from tests.status.situations import NO_GPU, view
from tests.testing.builders import ENGINES, NODES, inference_deployment, inputs, ready_pod, waiting
from tests.testing.nodes import node

ONE_L4 = [node_view(node("l4-a", gpus=1, labels={"nvidia.com/gpu.product": "NVIDIA-L4"}))]
TWO_L4 = [node_view(node("l4-a", gpus=2, labels={"nvidia.com/gpu.product": "NVIDIA-L4"}))]
CPU = {"device": "CPU"}
FREE_GPUS = FreeGpusLookup("nvidia.com/gpu")
RECIPE = "nvidia/Qwen3.6-35B-A3B-NVFP4"
OCI = "oci://ghcr.io/org/qwen:1"


def too_small(context: int, need: float, room: float, longest: int) -> str:
    """The message of vLLM 0.32.0, vllm/v1/core/kv_cache_utils.py."""
    return (
        f"ValueError: To serve at least one request with the model's max seq len ({context}), ({need} GiB KV cache is"
        f" needed, which is larger than the available KV cache memory ({room} GiB). Based on the available memory, the"
        f" estimated maximum model length is {longest}. Try increasing `gpu_memory_utilization`"
    )


OUT_OF_MEMORY = (
    'File "/vllm/v1/worker/gpu_worker.py", line 420, in determine_available_memory\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked} GiB. GPU 0 has a total capacity of 22.05 GiB"
    " of which 0.10 GiB is free. Including non-PyTorch memory, this process has {used} GiB memory in use."
)


def crashed(message: str) -> Manifest:
    """The status of a pod whose engine ended with this termination message before it was ready."""
    ended = {"terminated": {"exitCode": 1, "message": message}}
    return waiting("CrashLoopBackOff", "", last=ended)


class Cluster:
    """A resource with the objects that the first decision made."""

    def __init__(self, raw: Manifest, nodes: Sequence[NodeView] | None) -> None:
        self.raw, self.nodes = raw, nodes
        self.children: Mapping[Ref, Manifest] = {}
        self.settle()

    def decide(self, *pods: PodView, **changed: Any) -> Planned:  # noqa: ANN401 - fields of Inputs
        result = outcome(self.inputs(*pods, **changed))
        assert isinstance(result, Planned), result
        return result

    def inputs(self, *pods: PodView, **changed: Any) -> Inputs:  # noqa: ANN401 - fields of Inputs
        found = inputs(self.raw, children=self.children.values(), pods=pods, nodes=self.nodes)
        return replace(found, **{"lookups": {FREE_GPUS: Unavailable("")}, **changed})

    def settle(self, *pods: PodView) -> Plan:
        """Decide, and store the objects."""
        decided = self.decide(*pods)
        self.children = decided.desired
        return decided.plan.plan

    @property
    def template(self) -> str | None:
        return pod_template_hash(self.children[ENGINES]["spec"]["template"]["metadata"])

    def pod(self, status: Manifest, **more: Any) -> PodView:  # noqa: ANN401 - fields of a view
        return view(status, **{"template": self.template, **more})


@pytest.fixture
def one_l4() -> Cluster:
    return Cluster(inference_deployment(), ONE_L4)


def test_after_a_kv_cache_error_the_context_is_reduced_to_what_the_engine_reported(one_l4: Cluster) -> None:
    before = one_l4.decide().plan.plan
    pod = one_l4.pod(crashed(too_small(16384, 2.67, 1.5, 10_500)))
    healed = one_l4.settle(pod)
    assert (before.max_model_len, healed.max_model_len) == (16384, 9968)
    assert (healed.gpu, healed.parallel, healed.revision) == ("L4", before.parallel, 1)
    assert healed.learned is not None
    assert (healed.learned.context, healed.learned.longest) == (16384, 10_500)
    assert before.per_gpu is not None
    assert healed.per_gpu is not None
    assert healed.learned.memory_gib == pytest.approx(before.per_gpu.kv_cache_gib - 1.5)
    assert healed.per_gpu.kv_cache_gib == pytest.approx(1.5, abs=0.02)


@pytest.mark.parametrize(("error", "file", "statement"), QUOTED, ids=[file for _, file, _ in QUOTED])
def test_an_engine_that_refuses_its_configuration_is_neither_corrected_nor_replaced(
    one_l4: Cluster, error: str, file: str, statement: str
) -> None:
    before = one_l4.decide()
    pod = one_l4.pod(crashed(""))
    assert pod.problem
    assert pod.problem.terminated
    log = LogText(raised(error, VLLM + file, statement) + OUTER)
    after = one_l4.decide(pod, lookups={FREE_GPUS: Unavailable(""), pod.problem.terminated.log: log})
    assert after.plan.plan == before.plan.plan
    assert after.desired == before.desired
    assert after.pods == ()


TOO_FEW_STATES = (
    "ValueError: max_num_seqs ({asked}) exceeds available Mamba cache blocks ({fits}). Each decode sequence requires"
    " one Mamba cache block, so CUDA graph capture cannot proceed. Please lower max_num_seqs to at most {fits} or"
    " increase gpu_memory_utilization."
)
"""The message of vLLM 0.32.0, vllm/config/compilation.py."""


@pytest.mark.parametrize("engine", [{}, {"maxModelLen": 16384}], ids=["no context", "a requested context"])
def test_too_few_blocks_of_states_limit_a_batch_to_what_the_engine_reported(engine: Manifest) -> None:
    raw = inference_deployment(source="hf://Qwen/Qwen3.5-27B", engine=engine, parallelism={"tensor": 1})
    cluster = Cluster(raw, NODES)
    before = cluster.decide().plan.plan
    assert before.max_num_seqs is not None
    assert before.max_num_seqs > 300
    pod = cluster.pod(crashed(TOO_FEW_STATES.format(asked=before.max_num_seqs, fits=300)))
    condition = report(cluster.inputs(pod), cluster.decide(pod), []).status.condition(ConditionType.SIZED)
    assert condition is not None
    assert "it reported that a batch has room for the states of 300 sequences" in condition.message
    assert "a batch has at most 285 sequences. To choose it yourself, set `spec.engine.maxNumSeqs`" in condition.message
    healed = cluster.settle(pod)
    assert (healed.max_num_seqs, healed.gpu, healed.parallel) == (285, before.gpu, before.parallel)
    (container,) = cluster.children[ENGINES]["spec"]["template"]["spec"]["containers"]
    assert "--max-num-seqs=285" in container["args"]


def test_a_requested_number_of_sequences_is_never_reduced() -> None:
    raw = inference_deployment(
        source="hf://Qwen/Qwen3.5-27B", engine={"maxNumSeqs": 256}, parallelism={"tensor": 1, "nodes": 1}
    )
    cluster = Cluster(raw, NODES)
    plan = cluster.decide(cluster.pod(crashed(TOO_FEW_STATES.format(asked=256, fits=200)))).plan.plan
    assert (plan.max_num_seqs, plan.learned) == (256, None)


def test_sequences_are_limited_where_memory_is_not_computed() -> None:
    cluster = Cluster(inference_deployment(parallelism={"tensor": 2}), None)
    healed = cluster.settle(cluster.pod(crashed(TOO_FEW_STATES.format(asked=1024, fits=300))))
    assert (healed.max_num_seqs, healed.max_model_len) == (285, None)


def test_a_plan_is_corrected_at_most_once(one_l4: Cluster) -> None:
    healed = one_l4.settle(one_l4.pod(crashed(too_small(19456, 2.67, 1.5, 10_500))))
    assert healed.revision == 1
    again = one_l4.pod(crashed(too_small(10_240, 1.6, 1.4, 9000)))
    assert one_l4.settle(again) == healed
    found = report(one_l4.inputs(again), one_l4.decide(again), []).status.condition(ConditionType.RECONCILING)
    assert found is not None
    assert found.reason == "KvCacheTooSmall"
    assert "Set `spec.engine.maxModelLen: 9000` or less" in found.message


def test_pods_of_an_earlier_template_correct_nothing(one_l4: Cluster) -> None:
    pod = one_l4.pod(crashed(too_small(19456, 2.67, 1.5, 10_500)), template="earlier")
    assert one_l4.decide(pod).plan.plan.learned is None


def test_a_plan_with_an_engine_that_serves_is_not_corrected(one_l4: Cluster) -> None:
    crashing = one_l4.pod(crashed(too_small(19456, 2.67, 1.5, 10_500)))
    assert one_l4.decide(crashing, one_l4.pod(ready_pod(), name="b")).plan.plan.learned is None
    old = one_l4.pod(ready_pod(), name="b", template="earlier")
    assert one_l4.decide(crashing, old).plan.plan.learned is not None


def test_a_requested_context_is_never_reduced() -> None:
    cluster = Cluster(inference_deployment(engine={"maxModelLen": 9000}, parallelism={"tensor": 1}), ONE_L4)
    pod = cluster.pod(crashed(too_small(9000, 1.3, 1.2, 8500)))
    plan = cluster.decide(pod).plan.plan
    assert (plan.max_model_len, plan.revision, plan.learned) == (9000, 0, None)


def test_a_requested_context_gets_more_gpus_if_the_engine_used_more_memory_than_estimated() -> None:
    cluster = Cluster(inference_deployment(engine={"maxModelLen": 9000, "profile": "Smallest"}), TWO_L4)
    assert cluster.decide().plan.plan.parallel.tensor == 1
    after = cluster.settle(cluster.pod(crashed(too_small(9000, 1.3, 0.2, 1400))))
    assert (after.max_model_len, after.parallel.tensor) == (9000, 2)


def test_a_reported_context_that_is_too_short_leads_to_more_gpus() -> None:
    cluster = Cluster(inference_deployment(engine={"kvCacheDtype": "fp8", "profile": "Smallest"}), TWO_L4)
    assert cluster.decide().plan.plan.parallel.tensor == 1
    after = cluster.settle(cluster.pod(crashed(too_small(40960, 2.8, 0.3, 4000))))
    assert after.parallel.tensor == 2


def test_without_memory_left_for_the_kv_cache_the_figure_of_the_log_counts(one_l4: Cluster) -> None:
    one_l4.nodes = NODES
    cluster = Cluster(inference_deployment(source="hf://Qwen/Qwen3-32B"), NODES)
    before = cluster.decide().plan.plan
    pod = cluster.pod(crashed("RuntimeError: Engine core initialization failed. See root cause above."))
    assert pod.problem is not None
    assert pod.problem.terminated is not None
    log = (
        "INFO 11-21 [gpu_worker.py:721] Available KV cache memory: -14.28 GiB\n"
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"
    )
    assert cluster.decide(pod).plan.plan == before
    healed = cluster.decide(pod, lookups={pod.problem.terminated.log: LogText(log)}).plan.plan
    assert before.per_gpu is not None
    assert healed.learned is not None
    assert healed.learned.memory_gib == pytest.approx(before.per_gpu.kv_cache_gib + 14.28)
    assert healed.parallel.tensor > before.parallel.tensor


def test_out_of_memory_while_profiling_is_corrected(one_l4: Cluster) -> None:
    pod = one_l4.pod(crashed(OUT_OF_MEMORY.format(asked="2.00", used="21.90")))
    before = one_l4.decide().plan.plan
    cluster = Cluster(inference_deployment(), TWO_L4)
    cluster.children = one_l4.children
    healed = cluster.decide(pod).plan.plan
    assert (before.gpus_per_replica, healed.gpus_per_replica) == (1, 2)
    assert healed.learned is not None
    assert healed.learned.memory_gib > 3


@pytest.mark.parametrize(
    "message",
    [
        OUT_OF_MEMORY.format(asked="2.00", used="21.90").partition("\n")[2],
        OUT_OF_MEMORY.format(asked="0.10", used="9.00"),
        "RuntimeError: CUDA error: out of memory",
    ],
    ids=["while it served", "since others use the memory", "without figures"],
)
def test_other_out_of_memory_errors_correct_nothing(one_l4: Cluster, message: str) -> None:
    one_l4.nodes = TWO_L4
    assert one_l4.decide(one_l4.pod(crashed(message))).plan.plan.learned is None


def test_a_correction_that_gives_no_other_sizes_changes_nothing(one_l4: Cluster) -> None:
    pod = one_l4.pod(crashed(OUT_OF_MEMORY.format(asked="9.00", used="21.90")))
    assert one_l4.decide(pod).desired == one_l4.children


@pytest.mark.parametrize(
    "raw",
    [
        inference_deployment(source=OCI, hardware=CPU),
        inference_deployment(source=OCI, hardware=CPU, engine={"args": ["--kv-cache-memory-bytes=4G"]}),
        inference_deployment(parallelism={"tensor": 2}),
    ],
    ids=["CPUs", "a KV cache of a requested size", "GPUs that nobody can see"],
)
def test_where_memory_is_not_computed_the_reported_context_is_used_with_a_margin(raw: Manifest) -> None:
    cluster = Cluster(raw, None)
    assert cluster.decide().plan.plan.max_model_len is None
    healed = cluster.settle(cluster.pod(crashed(too_small(131072, 16.0, 4.0, 32768))))
    assert healed.max_model_len == 31120
    (container,) = cluster.children[ENGINES]["spec"]["template"]["spec"]["containers"]
    assert "--max-model-len=31120" in container["args"]


def test_a_checked_plan_stays_if_it_could_only_be_decided_again_without_a_check() -> None:
    cluster = Cluster(inference_deployment(parallelism={"tensor": 1}), ONE_L4)
    before = cluster.decide().plan.plan
    assert not before.unchecked_reason
    cluster.nodes = None
    assert cluster.settle(cluster.pod(crashed(too_small(131072, 16.0, 4.0, 32768)))) == before


def test_the_kv_cache_on_cpus_keeps_its_size_for_the_reduced_context() -> None:
    cluster = Cluster(inference_deployment(hardware=CPU), None)
    before = cluster.decide().plan.plan
    assert before.kv_cache_bytes is not None
    healed = cluster.settle(cluster.pod(crashed(too_small(32768, 4.8, 4.0, 20_000))))
    assert (healed.max_model_len, healed.kv_cache_bytes) == (18992, before.kv_cache_bytes)


def test_what_was_learned_survives_a_restart_of_the_operator(one_l4: Cluster) -> None:
    healed = one_l4.decide(one_l4.pod(crashed(too_small(19456, 2.67, 1.5, 10_500))))
    annotation = healed.desired[ENGINES]["metadata"]["annotations"][PLAN_ANNOTATION.key]
    assert json.loads(annotation)["plan"]["learned"]["longest"] == 10_500
    one_l4.children = healed.desired
    assert one_l4.decide().desired == healed.desired


def test_what_was_learned_is_dropped_when_an_input_of_the_sizes_changes(one_l4: Cluster) -> None:
    one_l4.settle(one_l4.pod(crashed(too_small(19456, 2.67, 1.5, 10_500))))
    one_l4.raw = inference_deployment(engine={"kvCacheDtype": "fp8"})
    plan = one_l4.decide().plan.plan
    assert (plan.learned, plan.revision) == (None, 0)


def test_what_was_learned_counts_when_no_node_can_run_the_engine_any_more(one_l4: Cluster) -> None:
    healed = one_l4.settle(one_l4.pod(crashed(too_small(19456, 2.67, 1.5, 10_500))))
    one_l4.nodes = NODES
    moved = one_l4.settle(one_l4.pod(NO_GPU))
    assert (moved.gpu, moved.revision) == ("H100-80GB", 2)
    assert moved.learned == healed.learned


def test_a_correction_takes_no_kv_cache_type_that_a_later_recipe_sets() -> None:
    cluster = Cluster(inference_deployment(source=f"hf://{RECIPE}"), [node_view(node("a", gpus=8))])
    first = cluster.decide()
    assert first.plan.plan.kv_cache_dtype == "fp8"
    for kept in ("fp8", ""):
        text = PLAN_ANNOTATION.write(replace(first.plan, plan=replace(first.plan.plan, kv_cache_dtype=kept)))
        children = [json.loads(json.dumps(child)) for child in first.desired.values()]
        for child in children:
            if PLAN_ANNOTATION.key in child["metadata"].get("annotations", {}):
                child["metadata"]["annotations"][PLAN_ANNOTATION.key] = text
        cluster.children = dict(zip(first.desired, children, strict=True))
        cluster.settle()
        context = first.plan.plan.max_model_len or 0
        healed = cluster.decide(cluster.pod(crashed(too_small(context, 2.67, 1.5, context // 2)))).plan.plan
        assert (healed.revision, healed.kv_cache_dtype) == (1, kept)


def test_status_says_what_the_engine_reported_and_what_was_reduced(one_l4: Cluster) -> None:
    pod = one_l4.pod(crashed(too_small(19456, 2.67, 1.5, 10_500)))
    condition = report(one_l4.inputs(pod), one_l4.decide(pod), []).status.condition(ConditionType.SIZED)
    assert condition is not None
    assert "The first engine did not start: it reported that 10,500 tokens fit" in condition.message
    assert "So the context was reduced from 19,456 to 9,968 tokens" in condition.message


def test_a_correction_changes_no_template_by_itself() -> None:
    cluster = Cluster(inference_deployment(), ONE_L4)
    text = json.dumps(cluster.children[ENGINES])
    assert "learned" not in text
    assert Learned("L4", 1) == Learned(gpu="L4", tensor=1)


def test_a_plan_of_an_earlier_release_stays_while_its_engine_serves_although_it_would_now_be_another() -> None:
    cluster = Cluster(inference_deployment(source="hf://Qwen/Qwen3.5-27B", parallelism={"tensor": 1}), NODES)
    made = cluster.decide().plan
    assert made.plan.max_num_seqs != 1024
    earlier = replace(made, plan=replace(made.plan, max_num_seqs=1024, left_to_engine=("maxNumSeqs",)))
    engines = cluster.children[ENGINES]
    annotations = {**engines["metadata"]["annotations"], **PLAN_ANNOTATION.entry(earlier)}
    pinned = {**engines, "metadata": {**engines["metadata"], "annotations": annotations}}
    cluster.children = {**cluster.children, ENGINES: pinned}
    assert cluster.decide(cluster.pod(ready_pod())).plan == earlier
    stored = json.loads(PLAN_ANNOTATION.write(earlier))["plan"]
    assert not {"whole_encoder", "most_sequences"} & stored.keys()


def test_what_was_learned_about_memory_keeps_its_stored_text(one_l4: Cluster) -> None:
    healed = one_l4.decide(one_l4.pod(crashed(too_small(19456, 2.67, 1.5, 10_500)))).plan
    assert "sequences" not in json.loads(PLAN_ANNOTATION.write(healed))["plan"]["learned"]
