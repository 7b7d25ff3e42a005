"""vLLM over several nodes: how the pods of one engine find each other, and when they start and drain."""

from collections.abc import Mapping, Sequence

from inference_operator.api.engine import EngineSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.environment import NO_FIELD, refusal_of_variables
from inference_operator.engines.group.launch import GROUP_PROGRAMS, MEMBER_VARIABLES, GroupedEngine, group_command
from inference_operator.engines.process import Timeouts
from inference_operator.engines.vllm.cli_args import given_options
from inference_operator.engines.vllm.data_parallel import ONE_API_SERVER
from inference_operator.engines.vllm.metrics import REQUESTS_RUNNING, REQUESTS_WAITING
from inference_operator.sizing.plan import Plan

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


def grouped(
    command: Sequence[str], plan: Plan, timeouts: Timeouts, *, port: int, health_path: str, stop_seconds: int
) -> tuple[str, ...]:
    """The command of a member over this one; unchanged for an engine in one pod."""
    if plan.parallel.nodes == 1:
        return tuple(command)
    metrics = (REQUESTS_RUNNING, REQUESTS_WAITING)
    leader = (*LEADER_ARGS, *((ONE_API_SERVER,) if plan.parallel.data > 1 else ()))
    engine = GroupedEngine(port, health_path, metrics, stop_seconds, leader, WORKER_ARGS, HOST_IP)
    return group_command(command, engine, plan.parallel.nodes, timeouts)


def group_programs(plan: Plan) -> Mapping[str, str]:
    """The sources of a member's programs; none for an engine in one pod."""
    return GROUP_PROGRAMS if plan.parallel.nodes > 1 else {}


def refusal_of_member(spec: EngineSpec) -> Refusal | None:
    """The refusal of what the operator decides for an engine over several nodes, or None.

    Examples:
        >>> print(refusal_of_member(EngineSpec(args=["--distributed-executor-backend=ray"])).message)
        spec.engine.args[0]: `--distributed-executor-backend` is managed by the operator in an engine over several \
nodes. Remove it; the operator connects the pods with `mp`.
        >>> refusal_of_member(EngineSpec(args=["--distributed-executor-backend=mp"])) is None
        True
    """
    for given in given_options(spec.args, BACKEND_OPTION):
        if given.value != BACKEND:
            problem = f"`{BACKEND_OPTION}` is managed by the operator in an engine over several nodes."
            cure = f"Remove it; the operator connects the pods with `{BACKEND}`."
            return Refusal(Reason.MANAGED_ARGUMENT, f"spec.engine.args[{given.index}]", problem, cure)
    return refusal_of_variables(spec.env, managed=dict.fromkeys(MEMBER_VARIABLES, NO_FIELD), dangerous={})
