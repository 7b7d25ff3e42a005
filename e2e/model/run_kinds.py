"""Make tiny models, serve each with vLLM, and record the metrics of its KV cache and its memory.

Runs inside the engine image: run_kinds.py FOLDER AT_ONCE. FOLDER holds `jobs.json` and gets `results.json`. So many
jobs run at a time.
"""

# torch and its kind are in the engine's image, not in the environment that checks this file:
# mypy: disable-error-code="import-not-found"

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

SEED = 7
START_SECONDS = 600
REQUEST_SECONDS = 300
SAMPLE_SECONDS = 0.2
MAKING = Lock()
REQUESTS = 4
"""Concurrent requests of full length."""
ANSWER_TOKENS = 8
_KEPT_KIB = ("Pss_Anon:", "Pss_Shmem:")
"""Memory that the kernel cannot drop, so without the pages of files."""
_ERROR = re.compile(
    r"^(?!.*WARNING).*\b\w+(?:Error|Exception): (?!.*(?:initialization failed|root cause))(.+)", re.MULTILINE
)


@dataclass
class Outcome:
    """The result of a job."""

    name: str
    metrics: str = ""
    answered: bool = False
    error: str = ""
    """vLLM's message if it did not start or did not answer."""
    memory_bytes: int = 0
    """Largest memory of all its processes together, without the pages of files."""
    file_bytes: int = 0
    """Size of the weights' files."""
    seconds: float = 0.0


def main() -> None:
    """Run all jobs."""
    folder = Path(sys.argv[1])
    jobs = json.loads((folder / "jobs.json").read_text())
    with ThreadPoolExecutor(int(sys.argv[2])) as pool:
        outcomes = list(pool.map(lambda job: outcome(job, folder), jobs))
    for one in outcomes:
        print(f"{one.name}: {one.error or 'served'}", flush=True)
    (folder / "results.json").write_text(json.dumps([asdict(one) for one in outcomes]))


def outcome(job: dict[str, Any], folder: Path) -> Outcome:
    """Make a model and serve it once."""
    model, began = Path(job["model"]), time.monotonic()
    with MAKING:  # torch has one generator of random numbers, and one default type
        make(job["config"], model)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(folder / name, model)
    result = Outcome(job["name"], file_bytes=sum(file.stat().st_size for file in model.glob("*.safetensors")))
    with (model / "log").open("w+") as log:
        process = subprocess.Popen(
            job["command"], env={**os.environ, **job["env"]}, stdout=log, stderr=log, start_new_session=True
        )
        try:
            with watched(process.pid, result), suppress(OSError):
                if started(process, job["url"]):
                    result.metrics = read(f"{job['url']}/metrics")
                    ask(job)
                    result.answered = True
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.seek(0)
        result.error = "" if result.answered else words(log.read())
    result.seconds = time.monotonic() - began
    shutil.rmtree(model)
    return result


def make(config: dict[str, Any], folder: Path, *, file_size: str = "50GB") -> None:
    """Write random weights for a config in files of at most this size, and the config unchanged.

    transformers would rewrite the config. The default size is its own.
    """
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(SEED)
    fields = {name: value for name, value in config.items() if name not in ("architectures", "model_type")}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(config["model_type"], **fields), dtype=torch.bfloat16)
    model.save_pretrained(folder, max_shard_size=file_size)
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))


def started(process: "subprocess.Popen[bytes]", url: str) -> bool:
    """Wait until it answers or ends."""
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError):
            read(f"{url}/health")
            return True
        time.sleep(SAMPLE_SECONDS)
    return False


def ask(job: dict[str, Any]) -> None:
    """Send requests of full length; the answers are ignored."""
    prompts = [[3 + (number + token) % 1000 for token in range(job["tokens"])] for number in range(REQUESTS)]

    def complete(prompt: list[int]) -> None:
        body = {"model": job["served"], "prompt": prompt, "max_tokens": ANSWER_TOKENS, "ignore_eos": True}
        request = urllib.request.Request(  # noqa: S310 - a server that was started here
            f"{job['url']}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:  # noqa: S310 - as above
            answer.read()

    with ThreadPoolExecutor(REQUESTS) as pool:
        list(pool.map(complete, prompts))


@contextmanager
def watched(group: int, result: Outcome) -> Iterator[None]:
    """Record the largest memory of a process group during the block."""
    over = Event()

    def look() -> None:
        while not over.wait(SAMPLE_SECONDS):
            result.memory_bytes = max(result.memory_bytes, memory_of(group))

    thread = Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def memory_of(group: int) -> int:
    """Bytes of memory of a process group; shared memory counts once."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getpgid(int(process.name)) == group:
                lines = (process / "smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in lines if line.startswith(_KEPT_KIB))
    return total * 1024


def read(url: str) -> str:
    """The body of an answer 200."""
    with urllib.request.urlopen(url, timeout=REQUEST_SECONDS) as answer:  # noqa: S310 - a server that was started here
        text: str = answer.read().decode()
    return text


def words(log: str) -> str:
    """The first error that says what is wrong; else the last line."""
    found = _ERROR.search(log)
    lines = log.strip().splitlines()
    return found[1].strip() if found else lines[-1] if lines else "no word"


if __name__ == "__main__":
    main()
