"""`infd inspect`: what a model's files say of it. It runs in Jobs of the operator too."""

import argparse
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import yaml

from inference_operator.api.refusal import Refusal
from inference_operator.cli.output import add_output
from inference_operator.inspection.folder import inspect_folder
from inference_operator.models.entry import Entry
from inference_operator.models.facts import ModelFacts
from inference_operator.models.inspected import Cause, Failure, Inspection, inspection_text
from inference_operator.models.model import model_facts
from inference_operator.models.not_understood import NotUnderstood
from inference_operator.models.source import ClaimModel, HubModel, model_source

TIME_LIMIT_SECONDS = 120
"""For everything together: an index of 32 MiB at 1 MB/s takes 34 s, and a hub that is slower serves no model."""
LONGEST_SECONDS = 3600
_AGAIN_SECONDS = 1.0
"""A library that swallows the alarm hears it again."""


class _TimeIsUpError(Exception):
    """The time limit has passed."""


def add_inspect(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The arguments of `infd inspect`."""
    inspect = commands.add_parser(
        "inspect",
        help="what a model's files say of it, without its weights",
        description="Reads config.json, the index of the weights and the sizes of files: of a repository of the hub "
        "(HF_ENDPOINT, HF_TOKEN, HF_HOME and HF_HUB_OFFLINE mean what they mean to engines), or of a folder.",
    )
    inspect.add_argument("source", help="hf://org/name, or a folder")
    inspect.add_argument("--revision", help="branch, tag or commit of the hub's repository")
    inspect.add_argument("--folder", type=Path, help="where the volume of a pvc:// or oci:// source is mounted")
    inspect.add_argument(
        "--time-limit", type=_seconds, default=TIME_LIMIT_SECONDS, metavar="SECONDS", help="for all of it; 120"
    )
    inspect.add_argument("--to", type=Path, metavar="FILE", help="write the answer there too, as one line of JSON")
    add_output(inspect)
    inspect.set_defaults(run=run_inspect)


def run_inspect(options: argparse.Namespace) -> int:
    """Answer, and say so; 1 where there are no facts."""
    try:
        with _alarm(options.time_limit):
            found = _found(options)
    except _TimeIsUpError:
        problem = f"was not read within {options.time_limit} s."
        cure = "Look whether the hub or the volume answers, and how fast."
        found = Failure(Cause.TIMED_OUT, NotUnderstood(options.source, problem, cure))
    text = inspection_text(found)
    if options.to:
        options.to.write_text(text, encoding="utf-8")
    match options.output:
        case "json":
            print(text)
        case "yaml":
            print(yaml.safe_dump(json.loads(text), sort_keys=False), end="")
        case _:
            print("\n".join(_table(found)), file=sys.stderr if isinstance(found, Failure) else sys.stdout)
    return 1 if isinstance(found, Failure) else 0


def _found(options: argparse.Namespace) -> Inspection:
    if "://" not in options.source:
        return _of_folder(options.source)
    source = model_source(options.source)
    match source:
        case Refusal():
            return Failure(Cause.NOT_FOUND, NotUnderstood(options.source, source.problem, source.cure))
        case HubModel(repository):
            from inference_operator.inspection.hub import inspect_hub  # noqa: PLC0415 - half a second, and 60 MiB

            return inspect_hub(repository, options.revision)
    if options.folder is None:
        cure = "Give --folder."
        return Failure(Cause.NOT_FOUND, NotUnderstood(options.source, "is a volume of a cluster.", cure))
    folder = options.folder / source.path if isinstance(source, ClaimModel) else options.folder
    return inspect_folder(folder, name=options.source, source=options.source)


def _of_folder(name: str) -> Inspection:
    if not Path(name).is_dir():
        cure = f"Name a folder; a repository of the hub is `hf://{name}`."
        return Failure(Cause.NOT_FOUND, NotUnderstood(name, "there is no such folder.", cure))
    return inspect_folder(Path(name), name=name, source=name)


def _table(found: Inspection) -> Iterator[str]:
    if isinstance(found, Failure):
        yield found.message
        return
    facts = model_facts(found.config, found.weights)
    yield from _rows(found, facts) if isinstance(facts, ModelFacts) else [facts.message]


def _rows(found: Entry, facts: ModelFacts) -> Iterator[str]:
    remembering = (f"{one.layers} {one.attention.value}" for one in facts.groups)
    rows = {
        "model": found.name,
        "read from": found.source,
        "architecture": facts.architecture or "not said",
        "weights": f"{facts.weight_bytes / 2**30:.2f} GiB ({facts.weights_from})",
        "quantised": facts.quantization.kernel.value,
        "layers": f"{facts.layers} ({', '.join(remembering)})",
        "heads": f"{facts.heads}, of keys and values {facts.kv_heads}",
        "context": f"{facts.context:,} tokens",
        "assumed": "; ".join(facts.assumptions),
    }
    width = max(len(name) for name in rows) + 2
    yield from (f"{name:{width}}{value}" for name, value in rows.items() if value)


@contextmanager
def _alarm(seconds: int) -> Iterator[None]:
    """Raise `_TimeIsUpError` in whatever goes on, when the time has passed."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise _TimeIsUpError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _seconds(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:6]) <= LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 1 to {LONGEST_SECONDS}")
    return int(text)
