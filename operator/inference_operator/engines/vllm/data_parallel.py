"""vLLM with data parallel ranks: each has whole attention, batches and a KV cache of its own, and they share experts.

vLLM calls this internal load balancing (0.32.0, `docs/serving/data_parallel_deployment.md`): one API process on the
leader sends each request to the rank with the fewest. Over nodes, `--nnodes` and `--node-rank` tell each pod its ranks,
and `--master-addr` where the leader waits for them (`engine/arg_utils.py`), as in any group (`groups.py`).
"""

from collections.abc import Iterator, Sequence

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.vllm.cli_args import given_options, is_on
from inference_operator.engines.vllm.memory_flags import EXPERT_PARALLEL
from inference_operator.sizing.shape import ParallelSizes

ONE_API_SERVER = "--api-server-count=1"
"""By default vLLM starts as many API processes as ranks. One balances by what all ranks have, counts all requests, and
loads adapters in all ranks. Pods without an API refuse the option (0.32.0, `entrypoints/cli/serve.py`)."""


def data_arguments(parallel: ParallelSizes) -> Iterator[str]:
    """The arguments of every pod of an engine.

    Examples:
        >>> list(data_arguments(ParallelSizes(tensor=1, data=16, nodes=2)))
        ['--data-parallel-size=16', '--enable-expert-parallel']
        >>> list(data_arguments(ParallelSizes(tensor=8)))
        []
    """
    if parallel.data > 1:
        yield from (f"--data-parallel-size={parallel.data}", EXPERT_PARALLEL)
        yield from (ONE_API_SERVER,) if parallel.nodes == 1 else ()


def refusal_of_own_batches(args: Sequence[str]) -> Refusal | None:
    """The refusal of arguments that divide each expert over all data parallel ranks, or None.

    Examples:
        >>> print(refusal_of_own_batches(["--no-enable-expert-parallel"]).message)
        spec.engine.args: `--enable-expert-parallel` is off, and `spec.parallelism.data` needs it. Remove the argument.
        >>> refusal_of_own_batches(["--enable-expert-parallel"]) is None
        True
    """
    if not any(given_options(args, EXPERT_PARALLEL)) or is_on(args, EXPERT_PARALLEL):
        return None
    problem = f"`{EXPERT_PARALLEL}` is off, and `spec.parallelism.data` needs it."
    return Refusal(Reason.MANAGED_ARGUMENT, "spec.engine.args", problem, "Remove the argument.")
