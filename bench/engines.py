"""Tokens per second and time to ready of the engines that run on CPUs, on one model: `python -m bench.engines`.

Each engine serves the model of `make demo` on a real node, behind real routers, one after the other. `CLIENTS`
clients ask for completions of `TOKENS` tokens. Needs root, like `make e2e`.
"""

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import yaml

from bench.figures import Figure, at_least, at_most, parser_of, shown
from e2e import images
from e2e.deploy import stack
from e2e.helpers.served_deployment import Served
from e2e.helpers.volume_claim import claim_of
from e2e.localkube.handle import LocalCluster
from e2e.localkube.network import IpFamily
from e2e.model.tiny_gguf import write_gguf
from e2e.model.tiny_llama import model_folder
from e2e.test_llama_cpp import IMAGE
from inference_operator.cli.drill.completion import Question, answer_text
from inference_operator.cli.drill.load import PROMPTS

KINDS = ("VLLM", "Transformers", "LlamaCpp")
"""Engines that run on CPUs; the first is the one that the others are compared with."""
CLIENTS, TOKENS, ROUNDS = 16, 128, 3
READY_SECONDS = 60
"""Aim of a start: what a user waits for without looking elsewhere."""
LEAST_SHARE = 0.1
"""Aim of a fallback: a tenth of vLLM's tokens, with which a model can still be tried out."""
_OF_VLLM = ("args", "env", "dtype")
_OWN_FIELDS: Mapping[str, dict[str, Any]] = {
    "Transformers": {"env": [{"name": "OMP_NUM_THREADS", "value": "1"}], "dtype": "float32"},  # as in the sample
    "LlamaCpp": {"args": ["--threads=1"]},
}
GGUF, FILE = "bench-gguf", "tiny.gguf"


def main(arguments: Sequence[str]) -> int:
    """Print the figures; returns the exit status."""
    asked = parser_of("python -m bench.engines", "Engines on CPUs, side by side.").parse_args(arguments)
    figures: list[Figure] = []
    with stack.tests_cluster(IpFamily.IPV4) as cluster:
        images.build([IMAGE])
        stack.load(cluster, IMAGE)
        folder = cluster.volumes / GGUF
        folder.mkdir(exist_ok=True)
        write_gguf(model_folder(), folder / FILE)
        with claim_of(cluster, GGUF, folder):
            measured = {kind: _measured(cluster, kind) for kind in KINDS}
    best = measured[KINDS[0]][1]
    for kind, (ready, rate) in measured.items():
        figures.append(Figure(f"{kind}: from kubectl apply to ready", ready, "s", at_most(READY_SECONDS)))
        aim = None if kind == KINDS[0] else at_least(round(LEAST_SHARE * best, 1))
        figures.append(Figure(f"{kind}: {CLIENTS} clients", rate, "tokens/s", aim))
    print(shown(figures, asked.output))
    return int(any(figure.aim and not figure.aim.met_by(figure.value) for figure in figures))


def _measured(cluster: LocalCluster, kind: str) -> tuple[float, float]:
    """Seconds until an engine of this kind serves, and its tokens per second."""
    resource: dict[str, Any] = yaml.safe_load(stack.SAMPLE.read_text())
    name = f"bench-{kind.lower()}"
    resource["metadata"]["name"] = name
    engine = {**resource["spec"]["engine"], "kind": kind}
    if kind != KINDS[0]:
        engine = {field: value for field, value in engine.items() if field not in _OF_VLLM} | _OWN_FIELDS[kind]
    if kind == "LlamaCpp":
        resource["spec"]["model"] = {"source": f"pvc://{GGUF}/{FILE}"}
        engine["maxNumSeqs"] = CLIENTS
    resource["spec"]["engine"] = engine
    served = Served(cluster, name)
    began = time.monotonic()
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))
    try:
        stack.wait_ready(cluster, name)
        ready = time.monotonic() - began
        asyncio.run(_round(served))  # what is compiled or allocated at the first batch of this size does not count
        took = [asyncio.run(_round(served)) for _ in range(ROUNDS)]
        return ready, CLIENTS * TOKENS / min(took)
    finally:
        served.kubectl("delete", f"infd/{name}", "--wait=true")
        served.await_gone()


async def _round(served: Served) -> float:
    """Seconds in which each client gets one answer."""
    url = f"http://{served.address}/v1/completions"
    questions = [Question(url, served.name, prompt, streamed=True, tokens=TOKENS) for prompt in PROMPTS[:CLIENTS]]
    async with aiohttp.ClientSession() as session:
        began = time.monotonic()
        await asyncio.gather(*(answer_text(session, question) for question in questions))
        return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
