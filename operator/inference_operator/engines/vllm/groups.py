"""vLLM over several nodes: how the pods of one engine find each other, and when they start and drain.

Data parallel ranks: each has whole attention, batches and a KV cache of its own, and they share experts.
vLLM calls this internal load balancing (0.32.0, `docs/serving/data_parallel_deployment.md`): one API process on the
leader sends each request to the rank with the fewest. Over nodes, `--nnodes` and `--node-rank` tell each pod its ranks,
and `--master-addr` where the leader waits for them (`engine/arg_utils.py`), as in any group.
"""

from collections.abc import Iterator, Sequence

from inference_operator.api.engine import EngineSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.environment import NO_FIELD, refusal_of_variables
from inference_operator.engines.group.launch import MEMBER_VARIABLES, GroupedEngine, group_command
from inference_operator.engines.process import Timeouts
from inference_operator.engines.vllm.memory_flags import EXPERT_PARALLEL
from inference_operator.engines.vllm.metrics import REQUESTS_RUNNING, REQUESTS_WAITING
from inference_operator.engines.vllm.options import given_options, is_given, is_on
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.shape import ParallelSizes

MASTER_PORT = 29501
"""Port of the leader's store: vLLM's own default (0.32.0, vllm/config/parallel.py)."""
HOST_IP = "VLLM_HOST_IP"
"""Variable with the address that vLLM's message queues bind and announce (0.32.0, vllm/envs.py)."""
LEADER_ARGS = ("--nnodes={size}", "--node-rank={rank}", "--master-addr={leader}", f"--master-port={MASTER_PORT}")
WORKER_ARGS = (*LEADER_ARGS, "--headless")
"""Of ranks above 0: they have no API (0.32.0, vllm/entrypoints/cli/serve.py)."""
BACKEND_OPTION, BACKEND = "--distributed-executor-backend", "mp"
"""vLLM's own default for several nodes. It refuses Ray for them (0.32.0, vllm/config/parallel.py, engine/arg_utils.py),
and with other values a pod would run no processes for its GPUs."""


HEALTH_PATH = "/health"


def grouped(command: Sequence[str], plan: Plan, timeouts: Timeouts, *, port: int, stop_seconds: int) -> tuple[str, ...]:
    if plan.parallel.nodes == 1:
        return tuple(command)
    metrics = (REQUESTS_RUNNING, REQUESTS_WAITING)
    leader = (*LEADER_ARGS, *((ONE_API_SERVER,) if plan.parallel.data > 1 else ()))
    engine = GroupedEngine(port, HEALTH_PATH, metrics, stop_seconds, leader, WORKER_ARGS, HOST_IP)
    return group_command(command, engine, plan.parallel.nodes, timeouts)


def refusal_of_member(spec: EngineSpec) -> Refusal | None:
    """The refusal of what the operator decides for an engine over several nodes, or None."""
    for given in given_options(spec.args, BACKEND_OPTION):
        if given.value != BACKEND:
            problem = f"`{BACKEND_OPTION}` is managed by the operator in an engine over several nodes."
            cure = f"Remove it; the operator connects the pods with `{BACKEND}`."
            return Refusal(Reason.MANAGED_ARGUMENT, f"spec.engine.args[{given.index}]", problem, cure)
    return refusal_of_variables(spec.env, managed=dict.fromkeys(MEMBER_VARIABLES, NO_FIELD), dangerous={})


ONE_API_SERVER = "--api-server-count=1"
"""By default vLLM starts as many API processes as ranks. One balances by what all ranks have, counts all requests, and
loads adapters in all ranks. Pods without an API refuse the option (0.32.0, `entrypoints/cli/serve.py`)."""


def data_arguments(parallel: ParallelSizes) -> Iterator[str]:
    """The arguments of every pod of an engine."""
    if parallel.data > 1:
        yield from (f"--data-parallel-size={parallel.data}", EXPERT_PARALLEL)
        yield from (ONE_API_SERVER,) if parallel.nodes == 1 else ()


def refusal_of_own_batches(spec: EngineSpec) -> Refusal | None:
    """The refusal of arguments that divide each expert over all data parallel ranks, or None."""
    if not is_given(spec.args, EXPERT_PARALLEL) or is_on(spec.args, EXPERT_PARALLEL):
        return None
    problem = f"`{EXPERT_PARALLEL}` is off, and `spec.parallelism.data` needs it."
    return Refusal(Reason.MANAGED_ARGUMENT, "spec.engine.args", problem, "Remove the argument.")
