"""The model and the plan of a resource in short, as status has them and `kubectl get` prints them."""

from inference_operator.api.hardware import Device
from inference_operator.api.status import PlanStatus
from inference_operator.sizing.plan import Plan


def model_name(source: str) -> str:
    """The name of a model without scheme, organisation and digest.

    Examples:
        >>> model_name("hf://meta-llama/Llama-3.1-70B-Instruct"), model_name("pvc://models")
        ('Llama-3.1-70B-Instruct', 'models')
        >>> model_name("oci://registry.example/models/qwen:1@sha256:0123")
        'qwen:1'
    """
    return source.partition("@sha256:")[0].rstrip("/").rpartition("/")[2]


def gpus(plan: Plan) -> str:
    """The number and kind of the GPUs of one engine, `CPU`, or the number alone where no kind is known.

    The nodes of an engine come first, if it has several: `2x8xH100-80GB`.

    Examples:
        >>> from inference_operator.sizing.plan import unchecked_plan
        >>> from inference_operator.sizing.shape import SizingInputs
        >>> gpus(unchecked_plan(SizingInputs(4)))
        '4'
        >>> gpus(unchecked_plan(SizingInputs(8, nodes=2)))
        '2x8'
    """
    each = "CPU" if plan.device is Device.CPU else str(plan.gpus_per_pod)
    if plan.gpu:
        each = f"{each}x{plan.gpu.replace(' ', '-')}"
    return f"{plan.parallel.nodes}x{each}" if plan.parallel.nodes > 1 else each


def sizes(plan: Plan) -> PlanStatus:
    """The fields of a plan that people act on.

    Examples:
        >>> from inference_operator.sizing.plan import unchecked_plan
        >>> from inference_operator.sizing.shape import SizingInputs
        >>> sizes(unchecked_plan(SizingInputs(4))).gpus_per_replica
        4
    """
    return PlanStatus(
        device=plan.device,
        gpu=plan.gpu,
        gpus_per_replica=plan.gpus_per_replica,
        tensor_parallel_size=plan.parallel.tensor,
        pipeline_parallel_size=plan.parallel.pipeline,
        data_parallel_size=plan.parallel.data,
        nodes=plan.parallel.nodes,
        max_model_len=plan.max_model_len,
        max_num_seqs=plan.max_num_seqs,
        kv_cache_tokens=plan.per_gpu.kv_cache_tokens if plan.per_gpu else None,
        tool_call_parser=plan.tool_call_parser,
        reasoning_parser=plan.reasoning_parser,
    )
