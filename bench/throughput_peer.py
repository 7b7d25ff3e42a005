"""aiconfigurator beside the model of a step's time: `python -m bench.throughput_peer --command aiconfigurator`.

aiconfigurator (0.12 on PyPI) estimates throughput from times of kernels that were measured on GPUs. It is no
dependency; `--command` names it, for example one that `uv tool install aiconfigurator==0.12.0` makes. Both get the
points whose lengths are fixed, on GPUs and with parallel sizes that it knows, and the batch that the KV cache holds.
Ours is predicted with shares of other pages. Its estimate is of a steady load, so points of bursts that fit at once
are left out.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from bench.figures import Figure, parser_of, shown
from bench.throughput_model import errors, held_out, implied, ordered
from bench.throughput_points import VARIED_BELOW, Point, batch_of, points

SYSTEMS = {"H100-80GB": "h100_sxm", "H200": "h200_sxm", "B200": "b200_sxm", "A100-80GB": "a100_sxm"}
BACKENDS = {"vLLM": "vllm", "SGLang": "sglang", "TensorRT-LLM": "trtllm"}
SECONDS = 120
_TOKENS = re.compile(r"tokens/s/gpu:\s+([\d.]+)")


def comparable(point: Point) -> bool:
    """Whether both can predict the point: a steady load of fixed lengths, and tokens per second."""
    steady = point.concurrency is None or point.concurrency > 2 * batch_of(point)
    known = point.kind.name in SYSTEMS and not point.is_time
    return steady and known and point.load.prompt >= VARIED_BELOW


def estimate(command: str, point: Point) -> float | None:
    """The metric of a point as aiconfigurator estimates it; None if it does not support the combination."""
    parallel, load = point.shape.parallel, point.load
    ranks = parallel.tensor * parallel.data
    experts = point.facts.experts is not None
    options: Mapping[str, object] = {
        "--model-path": point.config,
        "--system": SYSTEMS[point.kind.name],
        "--backend": BACKENDS[point.engine],
        "--tp-size": parallel.tensor,
        "--pp-size": parallel.pipeline,
        "--isl": round(load.prompt),
        "--osl": round(load.answer),
        "--batch-size": max(1, round(batch_of(point))),
        **({"--attention-dp-size": parallel.data} if parallel.data > 1 else {}),
        **({"--moe-tp-size": 1, "--moe-ep-size": ranks} if experts and point.shape.expert_parallel else {}),
        **({"--moe-tp-size": ranks, "--moe-ep-size": 1} if experts and not point.shape.expert_parallel else {}),
    }
    words = [command, "cli", "estimate", *(str(word) for pair in options.items() for word in pair)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    found = _TOKENS.search(ran.stdout + ran.stderr)
    if ran.returncode or not found:
        return None
    each = float(found[1])
    match point.metric:
        case "output_tok_s_per_gpu":
            return each
        case "total_tok_s":
            return each * parallel.world_size * (1 + load.prompt / load.answer)
        case _:
            return each * parallel.world_size


def figures(command: str) -> Iterator[Figure]:
    """The errors of both, over the points that both predict."""
    known, _ = points()
    ours = held_out([(point, implied(point)) for point in known], lambda point: point.source)
    chosen = [point for point in known if comparable(point)]
    theirs = {point: found for point in chosen if (found := estimate(command, point))}
    yield Figure("comparable measurements", len(chosen), "rows")
    yield Figure("estimated by aiconfigurator", len(theirs), "rows")
    if not theirs:
        return
    both = {"ours, page held out": {point: ours[point] for point in theirs}, "aiconfigurator": theirs}
    for name, predictions in both.items():
        wrong = errors(predictions)
        pairs = [right for *_, right in ordered(predictions)]
        yield Figure(f"{name}: median error", median(wrong), "")
        yield Figure(f"{name}: p90 error", wrong[min(len(wrong) - 1, int(0.9 * len(wrong)))], "")
        yield Figure(f"{name}: pairs ordered rightly", sum(pairs) / max(1, len(pairs)), "")


def main(arguments: Sequence[str]) -> int:
    """Compare, and print the figures."""
    parser = parser_of("python -m bench.throughput_peer", "aiconfigurator beside the model of a step's time.")
    parser.add_argument("--command", required=True, help="the command of aiconfigurator")
    asked = parser.parse_args(arguments)
    print(shown(list(figures(asked.command)), asked.output))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
