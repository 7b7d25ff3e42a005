"""What enters an engine, and which engine gets it, measured on real vLLM engines: `python -m bench.real_engines`.

Runs on a real node (needs root) with the small model on CPUs, one core for all engines.

- *Affinity*: four engines behind two routers. Conversations of several turns, each with a beginning of its own. With
  `LeastOutstanding` and with `PrefixAffinity`. Hits are vLLM's own counters of its prefix cache.
- *Entry*: one engine whose KV cache holds a few requests, and a burst of many more. *Before* all are in the engine, as
  routers did until they shared its room: they are sent to it directly. *Now* they are sent to the router, which has
  learned the room from 200 finished requests. Preemptions are vLLM's counter. No other engine starts, so the queue
  is as long in the router as it was in the engine.

An answer of this model costs little computation, so times show the order of requests more than a GPU's work.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import numpy as np
import yaml

from bench.entry import answer_lengths
from bench.figures import Figure, as_known, at_least, at_most, parser_of, shown
from e2e.deploy import stack
from e2e.helpers.served_deployment import Served, metric
from e2e.load.target import base_url
from e2e.localkube.handle import LocalCluster
from e2e.localkube.network import IpFamily
from e2e.localkube.waiting import eventually
from inference_operator.sizing.serving import Load

NAME = "measured"
ENGINES, CONVERSATIONS, TURNS, AT_ONCE = 4, 48, 5, 8
BEGINNING_WORDS, TURN_WORDS, ANSWER_TOKENS = 400, 40, 8
CACHE_BYTES, BURST = 4 * 2**20, 48
"""A KV cache of 4,096 tokens of this model, and requests that come at once."""
LENGTHS = {"equal long answers": Load(1, 480), "conversations": Load(250, 120, answer_spread=1.0)}
"""Of requests that come at once; those of prompts are words."""
MOST_TOKENS = 480
"""Of an answer, beside the longest prompt, in the context of the sample."""
LEARNED = 220
"""Requests that end before the burst: the operator takes lengths from 200 (`autoscaling/latency.py`)."""
LEARN_SECONDS, KUBELET_SECONDS = 300, 90
"""Until lengths have been scraped and written, and until the kubelet has brought the file to all routers."""
SEED = 59
WORDS = ("otter", "river", "stone", "maple", "cloud", "amber", "violet", "ember", "harbor", "lantern", "meadow")
HITS_AIM, THROUGHPUT_AIM, BURST_AIM = at_least(1.2), at_least(0.98), at_most(0.5)


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt, and how many tokens the answer has."""

    prompt: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Answers:
    """Times of a run's answers."""

    first: tuple[float, ...]
    """Seconds to the first token."""
    last: tuple[float, ...]
    """Seconds to the last token."""
    seconds: float
    """Of the whole run."""


def resource(**engine: object) -> dict[str, Any]:
    """The sample for CPUs, under a name of its own."""
    found: dict[str, Any] = yaml.safe_load(stack.SAMPLE.read_text())
    found["metadata"]["name"] = NAME
    found["spec"]["engine"] |= engine
    return found


@contextmanager
def serving(cluster: LocalCluster, manifest: dict[str, Any], replicas: int) -> Iterator[Served]:
    """The service while its engines and routers are ready; it is deleted at the end."""
    manifest["spec"]["replicas"] = replicas
    with Served(cluster, NAME).serving(manifest) as served:
        stack.wait_engines(cluster, NAME, replicas)
        yield served
    served.await_left()


async def answer(session: aiohttp.ClientSession, url: str, request: Request) -> tuple[float, float]:
    """Seconds until the first event of a stream, and until its end."""
    body = {"model": NAME, "prompt": request.prompt, "max_tokens": request.tokens, "temperature": 0}
    body |= {"stream": True, "ignore_eos": True}
    began, first = time.monotonic(), 0.0
    async with session.post(f"{url}/v1/completions", json=body, raise_for_status=True) as response:
        async for line in response.content:
            if not first and line.startswith(b"data:"):
                first = time.monotonic() - began
    return first, time.monotonic() - began


async def answers(url: str, tasks: Sequence[Sequence[Request]], at_once: int) -> Answers:
    """Ask the requests of each task one after the other, and so many tasks at once."""
    places, began = asyncio.Semaphore(at_once), time.monotonic()
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:

        async def run(task: Sequence[Request]) -> list[tuple[float, float]]:
            async with places:
                return [await answer(session, url, request) for request in task]

        waits: list[Awaitable[list[tuple[float, float]]]] = [run(task) for task in tasks]
        found = await asyncio.gather(*waits)
    first, last = zip(*(times for task in found for times in task), strict=True)
    return Answers(first, last, time.monotonic() - began)


def conversations(seed: int) -> list[list[Request]]:
    """Requests of each conversation: a beginning, which grows by each turn."""
    draw, found = np.random.default_rng(seed), list[list[Request]]()
    for _ in range(CONVERSATIONS):
        words = draw.choice(WORDS, BEGINNING_WORDS + TURNS * TURN_WORDS)
        lengths = (BEGINNING_WORDS + turn * TURN_WORDS for turn in range(1, TURNS + 1))
        found.append([Request(" ".join(words[:length]), ANSWER_TOKENS) for length in lengths])
    return found


def counted(served: Served, series: str) -> float:
    """The sum of a counter over all engines."""
    return sum(metric(address, f"{series}{{") for address in served.pods("engine").values())


def affinity(cluster: LocalCluster) -> Iterator[Figure]:
    """Hits and times to the first token, with each strategy."""
    hits, firsts = dict[str, float](), dict[str, Answers]()
    for number, strategy in enumerate(("LeastOutstanding", "PrefixAffinity")):
        manifest = resource()
        manifest["spec"]["router"] = {"strategy": strategy}
        with serving(cluster, manifest, ENGINES) as served:
            series = ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total")
            before = [counted(served, name) for name in series]
            url = base_url(served.address)
            firsts[strategy] = asyncio.run(answers(url, conversations(SEED + number), AT_ONCE))
            found, asked = (counted(served, name) - was for name, was in zip(series, before, strict=True))
            hits[strategy] = found / asked
        yield Figure(f"{strategy}: hits of the prefix caches", hits[strategy], "of prompt tokens")
        yield Figure(f"{strategy}: time to the first token", float(np.mean(firsts[strategy].first)) * 1000, "ms")
    least, kept = hits.values()
    yield Figure("hits with affinity, beside least outstanding", kept / least, "times", HITS_AIM)
    least_first, kept_first = (float(np.mean(found.first)) for found in firsts.values())
    yield Figure("time to the first token with affinity", kept_first / least_first, "times", at_most(1))


def crowd(lengths: Load, count: int, seed: int) -> list[list[Request]]:
    """Requests that share no beginning, each a task of its own."""
    draw = np.random.default_rng(seed)
    tokens = np.clip(answer_lengths(lengths, draw, count), 2, MOST_TOKENS)
    starts = draw.integers(10**9, size=count)
    prompts = (f"{start} " + " ".join(draw.choice(WORDS, int(lengths.prompt))) for start in starts)
    return [[Request(prompt, int(length))] for prompt, length in zip(prompts, tokens, strict=True)]


def entry(cluster: LocalCluster, name: str) -> Iterator[Figure]:
    """Preemptions and times of a burst, before and now."""
    sample, lengths = resource()["spec"]["engine"]["args"], LENGTHS[name]
    args = [each for each in sample if "kv-cache-memory" not in each] + [f"--kv-cache-memory-bytes={CACHE_BYTES}"]
    with serving(cluster, resource(args=args), 1) as served:
        (engine,) = served.pods("engine").values()
        direct, routed = base_url(stack.authority(engine, 8000)), base_url(served.address)
        asyncio.run(answers(routed, crowd(lengths, LEARNED, SEED), BURST))
        yield Figure(f"{name}: requests that one engine has room for", room(served), "requests")
        runs = dict[str, tuple[float, Answers]]()
        for when, url in (("before", direct), ("now", routed)):
            was = counted(served, "vllm:num_preemptions_total")
            found = asyncio.run(answers(url, crowd(lengths, BURST, SEED + len(when)), BURST))
            runs[when] = counted(served, "vllm:num_preemptions_total") - was, found
            yield Figure(f"{name}, {when}: preemptions of a burst", runs[when][0], "preemptions")
            yield Figure(f"{name}, {when}: p99 of the time to the first token", _p99(found.first), "s")
            yield Figure(f"{name}, {when}: p99 of the time to the last token", _p99(found.last), "s")
            yield Figure(f"{name}, {when}: requests a second", BURST / found.seconds, "requests/s")
        (before, old), (now, new) = runs.values()
        yield Figure(f"{name}: preemptions, beside before", now / max(before, 1.0), "times", BURST_AIM)
        yield Figure(f"{name}: throughput, beside before", old.seconds / new.seconds, "times", THROUGHPUT_AIM)
        late = _p99(new.first) / _p99(old.first)
        yield Figure(f"{name}: p99 of the time to the first token, beside before", late, "times", BURST_AIM)


def _p99(seconds: Sequence[float]) -> float:
    return float(np.percentile(seconds, 99))


def room(served: Served) -> float:
    """What the operator has written for the routers, after it has measured the lengths and all routers have it."""

    def written() -> float:
        found = json.loads(served.kubectl("get", "configmap", f"{NAME}-router", "--output=json"))
        return float(found["data"].get("room", "e 0").split()[-1])

    eventually(lambda: written() > 0, seconds=LEARN_SECONDS, what=lambda: "room for a number of requests")
    time.sleep(KUBELET_SECONDS)
    return written()


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    args = parser_of("python -m bench.real_engines", "Entry and affinity on real engines.").parse_args(arguments)
    with stack.tests_cluster(IpFamily.IPV4) as cluster:
        of_entry = (figure for name in LENGTHS for figure in entry(cluster, name))
        print(shown([*as_known(affinity(cluster)), *as_known(of_entry)], args.output))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
