"""vLLM on this machine's GPU: estimated and reported memory, and tokens per second behind the router.

    python -m bench.gpu [--minutes N] [--model NAME] [--keep FOLDER] [--output text|json]

Needs one NVIDIA GPU, `vllm` of the operator's release in PATH, and for the router root and the router's image. Weights
are random (`--load-format dummy`), so nothing is downloaded. What cannot be measured here reads "not measured"; the
exit status is 0 all the same. `--keep` keeps the logs of vLLM, and after each model the figures so far and its row of
`bench/data/startups.csv`, with vLLM's own four figures of memory.

- Each model starts with the arguments that the operator renders for this GPU. Weights, other memory and tokens of the
  KV cache are compared with what vLLM logs. Its "peak activation" is no term: it includes the estimate of CUDA graphs
  (0.32.0, `v1/worker/gpu_worker.py`, `determine_available_memory`).
- Each then serves `BATCHES` clients at a time. The time of a step is compared with the model of a step's time,
  but not for experts: a router of random weights chooses nearly the same ones for all tokens.
- The last model also serves a fixed load, in turn directly and through HAProxy with the router's configuration.
"""

import asyncio
import contextlib
import csv
import json
import math
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import aiohttp

from bench import startups
from bench.figures import Aim, Figure, at_least, at_most, parser_of, shown
from e2e.images.errors import ImageError
from e2e.router.loopback import NAME_SERVER, Loopback, unpacked
from e2e.router.names import Names
from inference_operator.cli.offline import offline_inputs
from inference_operator.engines.registry import ENGINES
from inference_operator.engines.vllm.memory import LATEST
from inference_operator.hardware.offers import GpuOffer, offer_named
from inference_operator.manifest import Manifest
from inference_operator.models.checkpoint import Weights
from inference_operator.models.entry import Entry
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.settings import Settings
from inference_operator.sizing.budget import Budget
from inference_operator.sizing.serving import Load, Serving, serving_of_plan
from inference_operator.sizing.shape import ParallelSizes, Shape

CONFIGS = Path(__file__).parents[1] / "e2e" / "vllm_parser" / "public_models.jsonl"
MODELS = (
    "Qwen/Qwen3-30B-A3B-FP8",
    "openai/gpt-oss-20b",
    "deepseek-ai/DeepSeek-V2-Lite",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "Qwen/Qwen2.5-7B-Instruct-AWQ",
    "Qwen/Qwen3-8B",
)
"""FP8 experts, MXFP4 experts, latent attention, a hybrid, AWQ, and a dense model, which also serves the load."""
MINUTES = 9.5
START_SECONDS, LOAD_SECONDS, ROUNDS = 240.0, 20.0, 3
"""Limit of a start; time of one load; loads of each kind, in turn."""
BATCH_SECONDS, WARM_UP_SECONDS = 10.0, 2.0
"""Time of the load of each batch, and of a first one that is not counted: kernels are compiled at their first use."""
CONCURRENT, PROMPT_TOKENS, ANSWER_TOKENS, WORDS = 64, 256, 128, 1000
BATCHES = (1, 16, 64)
"""Clients at a time for the time of a step."""
LOAD = Load(PROMPT_TOKENS, ANSWER_TOKENS)
STEP_AIM = at_most(25)
"""Per cent; the model's median error on published measurements is 19 (`python -m bench.throughput_model`)."""
ENGINE, PORT = "127.0.54.1", 8000
RATIO_AIM = at_least(0.99)
ERROR_AIMS = {"weights": at_most(3), "other memory": None, "KV cache tokens": at_most(6)}
"""Per cent of what is reported. Other memory has no aim of its own: its error is part of that of the KV cache."""
_LOADED = re.compile(r"Model loading took ([0-9.]+) GiB")
_REQUESTED = re.compile(r"Desired GPU memory utilization is \([0-9.]+, ([0-9.]+) GiB\)")
_AVAILABLE = re.compile(r"Available KV cache memory: ([0-9.]+) GiB")
_TOKENS = re.compile(r"KV cache size: ([0-9,]+) tokens")
OWN_FIGURES = {
    "consumed_gib": re.compile(r"Actual usage is ([0-9.]+) GiB for consumed memory"),
    "peak_gib": re.compile(r"([0-9.]+) GiB\s+for peak activation"),
    "graphs_estimated_gib": re.compile(r"CUDA graph pool memory: [0-9.]+ GiB \(actual\), ([0-9.]+) GiB \(estimated\)"),
    "graphs_actual_gib": re.compile(r"CUDA graph pool memory: ([0-9.]+) GiB \(actual\)"),
}
"""vLLM 0.32.0: `v1/worker/gpu_model_runner.py`, `v1/worker/gpu_worker.py`, `v1/core/kv_cache_utils.py`."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Memory of an engine; None for what is not known."""

    weights: float | None = None
    """GiB."""
    others: float | None = None
    """GiB of activations, CUDA graphs and whatever is outside PyTorch: the engine's memory but weights and KV cache."""
    kv_tokens: int | None = None
    kv_cache: float | None = None
    """GiB."""
    own: Mapping[str, float] = field(default_factory=dict)
    """VLLM's own figures in GiB, by their columns of `startups.csv`."""


@dataclass(frozen=True, slots=True)
class Loads:
    """Tokens per second of a loaded engine."""

    of_batches: Mapping[int, float]
    """By the number of clients."""
    direct: float | None = None
    routed: float | None = None
    """Beside each other; None without the router."""


@dataclass(frozen=True, slots=True)
class Start:
    """A model on this GPU: how it starts, and what the operator estimates."""

    name: str
    config: Manifest
    command: tuple[str, ...]
    """`MODEL` stands for its folder and `PORT` for its port."""
    offer: GpuOffer
    shape: Shape
    estimate: Terms
    serving: Serving | None
    """The model of its latencies; None for experts, and if the speed of the GPU is unknown."""


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    parser = parser_of("python -m bench.gpu", "vLLM on this machine's GPU: memory, and throughput behind the router.")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="limit of the whole run")
    parser.add_argument("--model", action="append", help=f"a model of {CONFIGS.name}; may be repeated")
    parser.add_argument("--keep", type=Path, help="a folder for logs, and for the figures after each model")
    args = parser.parse_args(arguments)
    deadline = time.monotonic() + args.minutes * 60
    offer = this_gpu() if shutil.which("vllm") else None
    names = args.model or MODELS
    starts = {} if offer is None else {name: start for name in names if (start := start_of(name, offer))}
    with tempfile.TemporaryDirectory() as folder:
        print(shown(measured(names, starts, deadline, Path(args.keep or folder)), args.output))
    return 0


def this_gpu() -> GpuOffer | None:
    """The first GPU of this machine; None without one of a known kind."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return gpu_of(said)


def gpu_of(said: str) -> GpuOffer | None:
    """The GPU that `nvidia-smi --query-gpu=name,memory.total` prints, with MiB; None if its kind is not known.

    Examples:
        >>> gpu_of("NVIDIA H100 80GB HBM3, 81559").kind
        'H100-80GB'
        >>> gpu_of("Quadro FX 580, 512") is None
        True
    """
    name = said.splitlines()[0].rpartition(",")[0].strip() if said.strip() else ""
    return offer_named(name.replace(" ", "-"), per_node=1) if name else None


def start_of(name: str, offer: GpuOffer) -> Start | None:
    """The command line that the operator renders for a model on this GPU, and its estimate; None if it does not fit."""
    (files,) = (one["files"] for line in CONFIGS.read_text().splitlines() if (one := json.loads(line))["model"] == name)
    config = files["config.json"]
    facts = model_facts(config)
    if not isinstance(facts, ModelFacts):
        return None
    metadata = {"name": "m", "namespace": "default"}
    raw = {"apiVersion": "inference-operator.dev/v1alpha1", "kind": "InferenceDeployment", "metadata": metadata}
    spec = {"model": {"source": "pvc://models/x"}}
    settings = Settings(gpu_offers=(f"{offer.kind}:1",))
    entry = Entry(name, "", config, Weights(facts.weight_bytes, "counted"))
    found = outcome(offline_inputs({**raw, "spec": spec}, settings, ENGINES, model=entry))
    if not isinstance(found, Planned):
        return None
    process = found.roles[0].process
    program, (_, *rendered) = process.command[process.command.index("--") + 1 :], process.args  # without the GPU check
    extra = ("--load-format=dummy", "--port=PORT")
    command = (*program, "MODEL", *rendered, *extra)
    serving = None if facts.experts else serving_of_plan(found.plan.plan)
    shape = shape_of(found)
    return Start(name, config, command, offer, shape, estimate_of(shape, facts, offer), serving)


def shape_of(found: Planned) -> Shape:
    """The sizes of the operator's plan."""
    plan = found.plan.plan
    return Shape(
        ParallelSizes(plan.gpus_per_replica),
        context=plan.max_model_len,
        utilization=plan.gpu_memory_utilization,
        max_num_seqs=plan.max_num_seqs,
        max_num_batched_tokens=plan.max_num_batched_tokens,
    )


def estimate_of(shape: Shape, facts: ModelFacts, offer: GpuOffer) -> Terms:
    """The operator's estimate for these sizes."""
    one: Budget = ENGINES[ENGINES.default].on_gpus("", offer).budget(facts, shape)
    return Terms(one.weights, one.activation + one.context_memory + one.graphs, one.kv_tokens)


def reported(log: str) -> Terms:
    """What vLLM logged; the last line of each kind counts.

    Examples:
        >>> reported("Model loading took 15.27 GiB memory and 3.1 seconds. GPU KV cache size: 352,112 tokens, Maximum")
        Terms(weights=15.27, others=None, kv_tokens=352112, kv_cache=None, own={})
    """
    loaded, requested, available, tokens = (
        float(found[-1].replace(",", "")) if (found := pattern.findall(log)) else None
        for pattern in (_LOADED, _REQUESTED, _AVAILABLE, _TOKENS)
    )
    others = requested - available - loaded if requested and loaded and available is not None else None
    own = {name: float(found[-1]) for name, pattern in OWN_FIGURES.items() if (found := pattern.findall(log))}
    return Terms(loaded, others, None if tokens is None else int(tokens), available, own)


def keep_row(folder: Path, start: Start, found: Terms, *, served: bool) -> None:
    """Append the row of a start-up to `startups.csv` in the folder."""
    shape, path = start.shape, folder / startups.FILE.name
    row = {
        "id": "new",
        "source": f"python -m bench.gpu {time.strftime('%Y-%m-%d')}: random weights",
        "vllm_version": ".".join(map(str, LATEST)),
        "model": start.name,
        "gpu": start.offer.kind,
        "gpu_mem_gib": start.offer.memory_gib,
        "tp": shape.parallel.tensor,
        "pp": shape.parallel.pipeline,
        "gpu_memory_utilization": shape.utilization,
        "max_model_len": shape.context,
        "max_num_seqs": shape.max_num_seqs,
        "max_num_batched_tokens": shape.max_num_batched_tokens,
        "enforce_eager": shape.eager,
        "weights_gib_per_gpu": found.weights,
        "kv_gib_per_gpu": found.kv_cache,
        "kv_tokens": found.kv_tokens,
        "outcome": "ok" if served else "other",
        **found.own,
    }
    is_new = not path.exists()
    with startups.FILE.open(encoding="utf-8") as file:
        columns = next(csv.reader(file))
    with path.open("a", encoding="utf-8", newline="") as file:
        rows = csv.DictWriter(file, columns, lineterminator="\n")
        if is_new:
            rows.writeheader()
        rows.writerow(row)


def measured(names: Sequence[str], starts: Mapping[str, Start], deadline: float, folder: Path) -> list[Figure]:
    """All figures; those of models that did not start before the deadline are not measured."""
    figures: list[Figure] = []
    rates: Loads | None = None
    for name in names:
        found, rates, start = Terms(), None, starts.get(name)
        own = folder / name.replace("/", "--")
        own.mkdir(parents=True, exist_ok=True)
        if start and time.monotonic() < deadline:
            write_model(own / "model", start.config)
            found, rates = asyncio.run(loaded(start, own, deadline, routed=name == names[-1]))
            keep_row(folder, start, found, served=rates is not None)
        figures += compared(name, start.estimate if start else Terms(), found)
        figures += steps(name, rates, start.serving if start else None)
        (folder / "figures.json").write_text(shown(figures, "json"))
    return figures + throughput(names[-1], rates)


def compared(name: str, estimate: Terms, found: Terms) -> list[Figure]:
    """Estimate, report and error of each term."""
    pairs = {
        "weights": (estimate.weights, found.weights, "GiB"),
        "other memory": (estimate.others, found.others, "GiB"),
        "KV cache tokens": (estimate.kv_tokens, found.kv_tokens, "tokens"),
    }
    figures = []
    for term, (ours, theirs, unit) in pairs.items():
        aim: Aim | None = ERROR_AIMS[term]
        error = abs(ours / theirs - 1) * 100 if ours is not None and theirs else None
        figures += [
            Figure(f"{name}: {term}, estimated", known(ours), unit),
            Figure(f"{name}: {term}, reported", known(theirs), unit),
            Figure(f"{name}: {term}, error", known(error), "%", aim),
        ]
    return figures


def known(value: float | None) -> float:
    """The value of a figure; not a number if it was not measured."""
    return math.nan if value is None else value


def steps(name: str, rates: Loads | None, serving: Serving | None) -> list[Figure]:
    """The time of a step for each batch: measured, by the model, and the error."""
    figures = []
    for batch in BATCHES:
        served = serving.at(batch, LOAD) if serving else None
        ours = 1000 * batch / (served.requests * ANSWER_TOKENS) if served else None
        theirs = 1000 * batch / rates.of_batches[batch] if rates and batch in rates.of_batches else None
        error = abs(ours / theirs - 1) * 100 if ours and theirs else None
        figures += [
            Figure(f"{name}: step of {batch} sequences, model", known(ours), "ms"),
            Figure(f"{name}: step of {batch} sequences, measured", known(theirs), "ms"),
            Figure(f"{name}: step of {batch} sequences, error", known(error), "%", STEP_AIM),
        ]
    return figures


def throughput(name: str, rates: Loads | None) -> list[Figure]:
    """Tokens per second directly and behind the router, and their ratio."""
    direct, routed = (rates.direct, rates.routed) if rates else (None, None)
    ratio = routed / direct if direct and routed else None
    return [
        Figure(f"{name}: bare vLLM", known(direct), "tokens/s"),
        Figure(f"{name}: vLLM behind the router", known(routed), "tokens/s"),
        Figure(f"{name}: router / bare", known(ratio), "", RATIO_AIM),
    ]


def write_model(folder: Path, config: Manifest) -> None:
    """A model's folder with its config and a tokenizer of numbered words; weights are not needed."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    words = {f"w{number}": number for number in range(WORDS)}
    kind = {"type": "WordLevel", "vocab": words, "unk_token": "w0"}
    unused = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    tokenizer: Manifest = {
        "version": "1.0",
        **unused,
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": kind,
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))


@contextlib.contextmanager
def engine(start: Start, folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The engine's process during the block; its log is the file `log`."""
    values = {"MODEL": str(folder / "model"), "PORT": str(port)}
    command = [values.get(part, part.replace("PORT", str(port))) for part in start.command]
    with (
        (folder / "log").open("w") as file,
        subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True) as process,
    ):
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


def await_health(url: str, deadline: float, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the engine answers; False at the deadline, and if it ended."""
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, urllib.error.URLError), urllib.request.urlopen(url, timeout=5):  # noqa: S310 - a server that was started here
            return True
        time.sleep(1)
    return False


async def loaded(start: Start, folder: Path, deadline: float, *, routed: bool) -> tuple[Terms, Loads | None]:
    """What an engine logged, and its tokens per second; None if it did not start before the deadline."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=START_SECONDS)) as session:
        with engine(start, folder, PORT) as process:
            url = f"http://{ENGINE}:{PORT}"
            limit = min(deadline, time.monotonic() + START_SECONDS)
            up = await asyncio.to_thread(await_health, f"{url}/health", limit, process)
            loads = await of_batches(session, url, deadline) if up else None
            if loads and routed and time.monotonic() < deadline:
                loads = await beside_router(loads, folder, session)
            return reported((folder / "log").read_text()), loads


async def of_batches(session: aiohttp.ClientSession, url: str, deadline: float) -> Loads:
    """Tokens per second of each batch for which there is time."""
    await rate(session, url, seconds=WARM_UP_SECONDS)
    rates: dict[int, float] = {}
    for batch in BATCHES:
        if time.monotonic() < deadline:
            rates[batch] = await rate(session, url, batch, BATCH_SECONDS)
    return Loads(rates)


async def beside_router(loads: Loads, folder: Path, session: aiohttp.ClientSession) -> Loads:
    """The loads, and one directly and through the router, in turn; unchanged without the router's image."""
    try:
        command = unpacked(folder / "root")
    except (ImageError, OSError, subprocess.SubprocessError):
        return loads
    loop = asyncio.get_running_loop()
    _, names = await loop.create_datagram_endpoint(Names, local_addr=(NAME_SERVER, 53))
    loopback = Loopback(folder / "root", command, names=names, session=session)
    loopback.engine_max_concurrency, loopback.engine_port = 4 * CONCURRENT, PORT
    await loopback.start_router()
    try:
        names.addresses.append(ENGINE)
        await loopback.until_served(1)
        urls = (f"http://{ENGINE}:{PORT}", f"http://127.0.0.1:{loopback.port}")
        rounds = [[await rate(session, url) for url in urls] for _ in range(ROUNDS)]
    finally:
        await loopback.close()
    return replace(loads, direct=median(one[0] for one in rounds), routed=median(one[1] for one in rounds))


async def rate(
    session: aiohttp.ClientSession, url: str, clients: int = CONCURRENT, seconds: float = LOAD_SECONDS
) -> float:
    """Tokens per second of a fixed number of clients. No two prompts are equal: a prefix in the cache costs nothing."""
    began, tokens = time.monotonic(), 0

    async def client() -> None:
        nonlocal tokens
        while time.monotonic() - began < seconds:
            prompt = random.choices(range(WORDS), k=PROMPT_TOKENS)  # noqa: S311 - no secret
            body = {"model": "m", "prompt": prompt, "max_tokens": ANSWER_TOKENS, "ignore_eos": True}
            async with session.post(f"{url}/v1/completions", json=body) as response:
                response.raise_for_status()
                tokens += (await response.json())["usage"]["completion_tokens"]

    await asyncio.gather(*(client() for _ in range(clients)))
    return tokens / (time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
