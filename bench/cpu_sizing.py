"""Compares the KV cache of real vLLM engines on a CPU with the computed one, for each kind of attention.

    python -m bench.cpu_sizing [--kind NAME ...] [--output text|json]

Serves tiny random models one after the other, half a minute each, in the engine's image (needs root or Docker). Blocks
and tokens must be equal. The memory of all processes must stay below the memory request of the operator's pod.
"""

import sys
from collections.abc import Sequence

from bench.figures import Figure, at_most, exactly, json_of, parser_of
from e2e.engines.cache_memory import Size, sizes
from e2e.model.kinds import KINDS
from inference_operator.units import MIB


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    parser = parser_of("python -m bench.cpu_sizing", "Computed and real sizes of vLLM on a CPU.")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="measure only this kind; may be repeated")
    args = parser.parse_args(arguments)
    measured = sizes(args.kind or tuple(KINDS))
    if args.output == "json":
        print(json_of([figure for size in measured for figure in figures(size)]))
        return 0
    print(f"{'':36} {'blocks':>15} {'tokens':>17} {'weights, MiB':>13} {'memory, MiB':>13}")
    print(f"{'':36} {'computed, vLLM':>15} {'computed, vLLM':>17} {'computed, file':>13} {'peak, request':>13}")
    for size in measured:
        print(line(size))
    return 0


def line(size: Size) -> str:
    """One model as a line of text."""
    if not size.told_blocks:
        return f"{size.name:36} this vLLM build cannot run it: {size.error}"
    blocks, tokens = (size.computed.blocks, size.computed.tokens) if size.computed else (0, 0)
    weights, file = size.computed_weights / MIB, size.file_bytes / MIB
    memory, request = size.memory_bytes / MIB, size.requested_bytes / MIB
    return (
        f"{size.name:36} {blocks:>7} {size.told_blocks:>7} {tokens:>8} {size.told_tokens:>8}"
        f" {weights:>6.1f} {file:>6.1f} {memory:>6.0f} {request:>6.0f}"
        f"{f' (does not answer requests: {size.error})' if size.error else ''}"
    )


def figures(size: Size) -> list[Figure]:
    """The figures of one model; computed blocks and tokens must be equal to those that vLLM reports."""
    if not size.told_blocks:
        return [Figure(f"{size.name}: this vLLM build cannot run it ({size.error})", 1, "model")]
    blocks, tokens = (size.computed.blocks, size.computed.tokens) if size.computed else (0, 0)
    return [
        Figure(f"{size.name}: blocks", blocks, "blocks", exactly(size.told_blocks)),
        Figure(f"{size.name}: tokens", tokens, "tokens", exactly(size.told_tokens)),
        Figure(f"{size.name}: weights", size.computed_weights, "bytes"),
        Figure(f"{size.name}: weights in its files", size.file_bytes, "bytes"),
        Figure(f"{size.name}: memory", size.memory_bytes / MIB, "MiB", at_most(size.requested_bytes / MIB)),
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
