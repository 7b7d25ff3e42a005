"""Compares ways to choose an engine by what its prefix cache may hold, and measures what the search for a key costs.

    python -m bench.affinity [--engines N] [--output text|json]

Simulates 8 engines and 4 router processes (`bench/routing_simulation.py`) on four workloads:

- Mooncake: an hour of a chat service (see `bench/data/README.md`). Its first block is the same in every request.
- Chat: conversations of 1 to 11 turns, with one of four system prompts.
- Tenants: 150 system prompts of 6,144 tokens, one turn each.
- Documents: up to 9 questions about a document of 12,288 tokens, with one system prompt.

The oracle knows every cache and every queue. The aims: a mean time to first token that is never longer than with least
outstanding requests, and at least 80 % of the oracle's hits.

The search for a key runs in the router's script, in Lua 5.4 without HAProxy, on bodies that fill the router's buffer:
those that cost most, and those of honest agents. Each figure is the CPU of one body, and the least of SEARCHES runs.
"""

import json
import lzma
import random
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from bench.figures import Figure, at_least, at_most, parser_of, shown
from bench.routing_simulation import (
    Policy,
    Request,
    at_random,
    hashed,
    least_outstanding,
    oracle,
    prefix_affinity,
    simulated,
)
from inference_operator.router.affinity import AFFINITY_FILE, BALANCE_FACTOR
from tests.testing.json_bodies import honest_bodies, hostile_bodies
from tests.testing.lua_scripts import script

TRACE = Path(__file__).parent / "data" / "mooncake_conversation_trace.jsonl.xz"
ENGINES = 8
SECONDS = 1_200.0
SEED = 7
FACTOR = BALANCE_FACTOR / 100
SEARCHES, SEARCH_AIM = 5, at_most(3)
"""Runs of each search, and milliseconds that one may take."""
OURS, LEAST, ORACLE = "prefix affinity", "least outstanding", "oracle"


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests in the order of their time, and the size of each engine's prefix cache in tokens."""

    requests: Sequence[Request]
    cache_tokens: int


def policies(engines: int) -> Mapping[str, Policy]:
    """All compared policies by name."""
    return {
        "random": at_random,
        LEAST: least_outstanding,
        "hash of the first bytes": hashed(lambda _, request, *__: request.first_bytes, factor=FACTOR),
        "hash of the conversation": hashed(lambda _, request, *__: request.conversation, factor=FACTOR),
        OURS: hashed(prefix_affinity(engines=engines), factor=FACTOR),
        ORACLE: oracle,
    }


def workloads(engines: int) -> Mapping[str, Workload]:
    """All workloads by name, with rates for this number of engines."""
    chance, rate = random.Random(SEED), engines / ENGINES  # noqa: S311 - no secret
    return {
        "Mooncake": Workload(_mooncake(rate), 1_500_000),
        "Chat": Workload(_conversations(chance, rate * 1.5, systems=4, system_blocks=2, document_blocks=0), 300_000),
        "Tenants": Workload(_tenants(chance, rate * 10), 150_000),
        "Documents": Workload(
            _conversations(chance, rate * 0.9, systems=1, system_blocks=1, document_blocks=24), 300_000
        ),
    }


def _mooncake(rate: float) -> list[Request]:
    """The trace; a smaller fleet gets it more slowly. The second block stands for the first user message."""
    requests = []
    with lzma.open(TRACE, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            blocks, first = tuple(row["hash_ids"]), str(row["hash_ids"][0])
            conversation = str(blocks[min(1, len(blocks) - 1)])
            second = row["timestamp"] / 1_000 / rate
            requests.append(Request(second, blocks, row["output_length"], first, conversation, first))
    return requests


def _conversations(
    chance: random.Random, per_second: float, *, systems: int, system_blocks: int, document_blocks: int
) -> list[Request]:
    """Conversations in which each prompt repeats the one before. Documents are read once, at the start."""
    requests, start, number = [], 0.0, 0
    while (start := start + chance.expovariate(per_second)) < SECONDS:
        number += 1
        system, second = f"system {chance.randrange(systems)}", start
        parts = [(system, block) for block in range(system_blocks)]
        parts += [(f"document {number}", block) for block in range(document_blocks)]
        for turn in range(1 + chance.randrange(9 if document_blocks else 11)):
            parts += [(f"{number}/{turn}", block) for block in range(1 + chance.randrange(3))]
            output = chance.randrange(100, 600)
            requests.append(Request(second, _blocks(parts), output, system, str(number), system))
            parts.append((f"{number}/{turn}", -1))
            second += 8 + chance.expovariate(1 / 30)
    return sorted((one for one in requests if one.second < SECONDS), key=lambda one: one.second)


def _tenants(chance: random.Random, per_second: float) -> list[Request]:
    requests, second, number = [], 0.0, 0
    while (second := second + chance.expovariate(per_second)) < SECONDS:
        number += 1
        system = f"tenant {chance.randrange(150)}"
        parts = [(system, block) for block in range(12)] + [(str(number), block) for block in range(2)]
        requests.append(Request(second, _blocks(parts), chance.randrange(50, 400), system, str(number), system))
    return requests


def _blocks(parts: Iterable[tuple[str, int]]) -> tuple[int, ...]:
    """Identifiers of blocks, each of which depends on those before it."""
    found, before = [], 0
    for name, block in parts:
        before = hash((before, crc32(name.encode()), block))
        found.append(before)
    return tuple(found)


def figures(engines: int) -> list[Figure]:
    """Hit rate and mean time to first token of each policy on each workload."""
    found = []
    for workload, one in workloads(engines).items():
        results = {
            name: simulated(one.requests, policy, engines=engines, cache_tokens=one.cache_tokens)
            for name, policy in policies(engines).items()
        }
        for name, result in results.items():
            ours = name == OURS
            hits = at_least(round(0.8 * results[ORACLE].hit_rate, 3)) if ours else None
            wait = at_most(round(results[LEAST].mean_ttft, 3)) if ours else None
            found.append(Figure(f"{workload}: {name}: hit rate", round(result.hit_rate, 3), "of tokens", hits))
            found.append(Figure(f"{workload}: {name}: time to first token", round(result.mean_ttft, 3), "s", wait))
    return found


def searches() -> list[Figure]:
    """The CPU of the search for a key in one body, of each form."""
    affinity = script(AFFINITY_FILE)

    def milliseconds(body: bytes) -> float:
        start = time.thread_time()
        affinity(body, b"chat")
        return 1e3 * (time.thread_time() - start)

    forms = {
        **{f"hostile body, {name}": body for name, body in hostile_bodies().items()},
        **{f"honest body, {name}": body for name, body in honest_bodies().items()},
    }
    return [
        Figure(name, round(min(milliseconds(body) for _ in range(SEARCHES)), 3), "ms", SEARCH_AIM)
        for name, body in forms.items()
    ]


def main(arguments: Sequence[str]) -> int:
    """Measure, simulate and print the figures."""
    parser = parser_of("python -m bench.affinity", "Ways to choose an engine, and the search for a key.")
    parser.add_argument("--engines", type=int, default=ENGINES, help=f"number of engines (default: {ENGINES})")
    args = parser.parse_args(arguments)
    print(shown([*searches(), *figures(args.engines)], args.output))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
