"""Make a model, serve it with vLLM, and record the times of requests at several concurrencies.

Runs inside the engine image: run_load.py FOLDER. FOLDER holds `job.json` and gets `rounds.json`.
"""

# run_kinds is beside this file in the container, and torch in the engine's image:
# mypy: disable-error-code="import-not-found"

import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from run_kinds import SEED, make, started

REQUEST_SECONDS = 300
FIRST_WORD, WORDS = 3, 2000


def main() -> None:
    """Serve the model, and measure one round after the other."""
    folder = Path(sys.argv[1])
    job = json.loads((folder / "job.json").read_text())
    model = Path(job["model"])
    make(job["config"], model)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(folder / name, model)
    environment = {**os.environ, **job["env"]}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(job["command"], env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            if not started(process, job["url"]):
                sys.exit(f"vLLM did not start:\n{(folder / 'log').read_text()[-3000:]}")
            measured_round(job, job["warm"])
            rounds = [measured_round(job, one) for one in job["rounds"]]
            most = max(map(requests_per_second, rounds))
            rounds += [measured_round(job, one, rate=one["part"] * most) for one in job["steady"]]
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    (folder / "rounds.json").write_text(json.dumps(rounds))


def measured_round(job: dict[str, Any], shape: dict[str, Any], *, rate: float = 0.0) -> list[dict[str, float]]:
    """Requests with lengths by chance.

    So many clients send one request after the other; with a rate, requests come by chance, as long as a client is free.
    """
    chance = random.Random(SEED)  # noqa: S311 - lengths of texts
    sizes = [(chance.randint(*job["prompts"]), chance.randint(*job["answers"])) for _ in range(shape["requests"])]
    texts = [[chance.randrange(FIRST_WORD, WORDS) for _ in range(prompt)] for prompt, _ in sizes]
    due = accumulate(chance.expovariate(rate) if rate else 0.0 for _ in sizes)
    start = time.monotonic()

    def sent(text: list[int], size: tuple[int, int], after: float) -> dict[str, float]:
        time.sleep(max(0.0, start + after - time.monotonic()))
        return asked(job, text, size[1])

    with ThreadPoolExecutor(shape["concurrency"]) as pool:
        return list(pool.map(sent, texts, sizes, due))


def requests_per_second(requests: list[dict[str, float]]) -> float:
    return len(requests) / (max(one["ended"] for one in requests) - min(one["began"] for one in requests))


def asked(job: dict[str, Any], prompt: list[int], answer: int) -> dict[str, float]:
    """Send one request, and read its answer as a stream; times are seconds of a monotonic clock."""
    body = {"model": job["served"], "prompt": prompt, "max_tokens": answer, "ignore_eos": True, "stream": True}
    address = urlsplit(job["url"])
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=REQUEST_SECONDS)
    began = time.monotonic()
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response, first = connection.getresponse(), 0.0
    if response.status != http.HTTPStatus.OK:
        sys.exit(f"vLLM answers {response.status}: {response.read().decode()}")
    while line := response.readline():
        if line.startswith(b"data: {") and not first:
            first = time.monotonic()
    ended = time.monotonic()
    connection.close()
    return {"began": began, "first": first, "ended": ended, "prompt": len(prompt), "answer": answer}


if __name__ == "__main__":
    main()
