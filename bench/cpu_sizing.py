"""The KV cache of real vLLMs on a CPU beside what the operator computes for it, for each kind of attention.

    python -m bench.cpu_sizing [--kind NAME ...] [--output text|json]

Serves tiny random models one after the other, half a minute each, in the engine's image (root, or Docker). Blocks and
tokens are to be equal; the memory of all processes is to stay below the request of the operator's pod.
"""

import sys
from collections.abc import Sequence

from bench.figures import Figure, at_most, exactly, json_of, parser_of
from e2e.model.kinds import KINDS
from e2e.sizes import Size, sizes
from inference_operator.units import MIB


def main(arguments: Sequence[str]) -> int:
    """Measure, and print."""
    parser = parser_of("python -m bench.cpu_sizing", "Computed and real sizes of vLLM on a CPU.")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only this one")
    asked = parser.parse_args(arguments)
    found = sizes(asked.kind or tuple(KINDS))
    if asked.output == "json":
        print(json_of([figure for size in found for figure in figures(size)]))
        return 0
    print(f"{'':36} {'blocks':>15} {'tokens':>17} {'weights, MiB':>13} {'memory, MiB':>13}")
    print(f"{'':36} {'computed, told':>15} {'computed, told':>17} {'computed, file':>13} {'most, asked':>13}")
    for size in found:
        print(line(size))
    return 0


def line(size: Size) -> str:
    """One model, for people."""
    if not size.told_blocks:
        return f"{size.name:36} this build cannot run it: {size.error}"
    blocks, tokens = (size.computed.blocks, size.computed.tokens) if size.computed else (0, 0)
    weights, file = size.computed_weights / MIB, size.file_bytes / MIB
    memory, asked = size.memory_bytes / MIB, size.requested_bytes / MIB
    return (
        f"{size.name:36} {blocks:>7} {size.told_blocks:>7} {tokens:>8} {size.told_tokens:>8}"
        f" {weights:>6.1f} {file:>6.1f} {memory:>6.0f} {asked:>6.0f}"
        f"{f' (and does not answer: {size.error})' if size.error else ''}"
    )


def figures(size: Size) -> list[Figure]:
    """The figures of one model; computed blocks and tokens must be equal to those that vLLM reports."""
    if not size.told_blocks:
        return [Figure(f"{size.name}: cannot be run ({size.error})", 1, "model")]
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
