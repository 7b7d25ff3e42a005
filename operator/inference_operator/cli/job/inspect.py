"""`infd inspect`: reads a model's config and file sizes. The operator's inspection Jobs run it too."""

import argparse
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import yaml

from inference_operator.api.refusal import Refusal
from inference_operator.jobs.inspection_result import InspectionResult, result_text
from inference_operator.jobs.result import Cause, Failure
from inference_operator.model_files.folder import inspect_folder
from inference_operator.models.config import NotUnderstood
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.models.source import BucketModel, ClaimModel, HubModel, file_of, model_source

_REPEAT_SECONDS = 1.0
"""The alarm is repeated, in case a library swallows its exception."""


class _TimeIsUpError(Exception):
    """The time limit has passed."""


def run(options: argparse.Namespace) -> int:
    inspection = _inspection(options)  # imports are before the time limit: the hub's client reports an interrupted one
    try:
        with _alarm(options.time_limit):
            result = inspection()
    except _TimeIsUpError:
        problem = f"could not be read within {options.time_limit} s."
        cure = "Check that the hub or the volume answers, and how fast."
        result = Failure(Cause.TIMED_OUT, NotUnderstood(options.source, problem, cure))
    text = result_text(result)
    if options.to:
        options.to.write_text(text, encoding="utf-8")
    match options.output:
        case "json":
            print(text)
        case "yaml":
            print(yaml.safe_dump(json.loads(text), sort_keys=False), end="")
        case _:
            print("\n".join(_table(result)), file=sys.stderr if isinstance(result, Failure) else sys.stdout)
    return 1 if isinstance(result, Failure) else 0


def _inspection(options: argparse.Namespace) -> Callable[[], InspectionResult]:
    pickle = options.allow_pickle
    if "://" not in options.source:
        return lambda: _of_folder(options.source, allow_pickle=pickle)
    source = model_source(options.source)
    match source:
        case Refusal():
            return lambda: Failure(Cause.NOT_FOUND, NotUnderstood(options.source, source.problem, source.cure))
        case HubModel(repository, file):
            from inference_operator.model_files.hub import inspect_hub  # noqa: PLC0415 - half a second, and 60 MiB

            return lambda: inspect_hub(repository, options.revision, allow_pickle=pickle, file=file)
        case BucketModel():
            from inference_operator.model_files.bucket import inspect_bucket  # noqa: PLC0415 - 20 MiB

            return lambda: _apart(lambda: inspect_bucket(source, options.revision, allow_pickle=pickle))
    if options.folder is None:
        cure = "Set --folder to its mount path."
        return lambda: Failure(Cause.NOT_FOUND, NotUnderstood(options.source, "is a volume in a cluster.", cure))
    folder = options.folder / source.path if isinstance(source, ClaimModel) else options.folder
    name, volume, file = options.source, options.folder, file_of(source)
    return lambda: inspect_folder(folder, name=name, source=name, allow_pickle=pickle, volume=volume, file=file)


def _apart(work: Callable[[], InspectionResult]) -> InspectionResult:
    """The result of work in a thread, which is left behind when a signal comes: Python sees none inside obstore."""
    future: Future[InspectionResult] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result()


def _of_folder(name: str, *, allow_pickle: bool) -> InspectionResult:
    if not Path(name).is_dir():
        cure = f"Use the path of a directory; a hub repository is `hf://{name}`."
        return Failure(Cause.NOT_FOUND, NotUnderstood(name, "there is no such directory.", cure))
    return inspect_folder(Path(name), name=name, source=name, allow_pickle=allow_pickle)


def _table(result: InspectionResult) -> list[str]:
    if isinstance(result, Failure):
        return [result.message]
    facts = model_facts(result.config, result.weights)
    if not isinstance(facts, ModelFacts):
        return [facts.message]
    groups = (f"{group.layers} {group.attention.value}" for group in facts.groups)
    rows = {
        "model": result.name,
        "read from": result.source,
        "architecture": facts.architecture or "unknown",
        "weights": f"{facts.weight_bytes / 2**30:.2f} GiB ({facts.weights_from})",
        "quantization": facts.quantization.kernel.value,
        "layers": f"{facts.layers} ({', '.join(groups)})",
        "heads": f"{facts.heads} attention heads, {facts.kv_heads} KV heads",
        "context": f"{facts.context:,} tokens",
        "assumptions": "; ".join(facts.assumptions),
    }
    width = max(map(len, rows)) + 2
    return [f"{name:{width}}{value}" for name, value in rows.items() if value]


@contextmanager
def _alarm(seconds: int) -> Iterator[None]:

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise _TimeIsUpError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
