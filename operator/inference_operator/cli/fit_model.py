"""The model that `infd fit` sizes: by its name on the hub or in the catalogue, or by a file."""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from inference_operator.cli.hub_model import hub_model
from inference_operator.cli.parser import UsageError
from inference_operator.jobs.inspection_result import parsed_result
from inference_operator.jobs.result import Failure
from inference_operator.models.catalogue import entry, similar_model
from inference_operator.models.checkpoint import Weights
from inference_operator.models.config import NotUnderstood
from inference_operator.models.entry import Entry
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.models.side_files import NO_SIDE_FILES, SideFiles
from inference_operator.models.source import HubModel
from inference_operator.planning.known_model import known_model
from inference_operator.settings import Settings
from inference_operator.units import GIB

MAX_CONFIG_BYTES = 4 * 2**20
"""Maximum size of a `config.json`; none on the hub comes near."""


def asked_model(options: argparse.Namespace) -> ModelFacts:
    """The facts of the model; raises `UsageError` if there are none."""
    if bool(options.config) is bool(options.model):
        raise UsageError("Give either the name of a model on the hub or --config FILE.")
    size = None if options.weights_gib is None else Weights(round(options.weights_gib * GIB), "--weights-gib")
    if options.config:
        document, weights, side = _of_file(options.config)
        weights = size or weights
    else:
        known = _named(options.model.removeprefix("hf://"))
        document, weights, side = known.config, size or known.weights, known.side
        if size is None and not options.quantization and not known.commit and (why := _not_sized(known.name)):
            raise UsageError(f"{why} Or give --weights-gib.")
    if weights and options.quantization:
        weights = replace(weights, exact=False)  # of weights in the stated form, not in the config's
    facts = model_facts(document, weights, side)
    if isinstance(facts, NotUnderstood):
        raise UsageError(facts.message)
    return facts


def _not_sized(name: str) -> str:
    """Why the operator does not size this model from the catalogue; empty if it does."""
    known = known_model(HubModel(name))
    return known.facts.message if known and isinstance(known.facts, NotUnderstood) else ""


def _named(name: str) -> Entry:
    """A model by its name: its files on the hub, else its entry in the catalogue. Says which one on stderr."""
    found, known = hub_model(f"hf://{name}", None, Settings()), entry(name)
    if isinstance(found, Entry):
        return found
    if isinstance(found, Failure) and not found.was_unanswered:
        raise UsageError(found.message)
    if known is None:
        near = similar_model(name)
        suggestion = f" Did you mean `{near}`?" if near else ""
        why = f" {found.message}" if found else ""
        cure = "Give --config FILE; `infd inspect -o json` writes such a file."
        raise UsageError(f"{name}: is not in the catalogue.{suggestion} {cure}{why}")
    if found:
        print(f"{found.message} The facts are those of the catalogue ({known.source}).", file=sys.stderr)
    return known


def _of_file(path: str) -> tuple[object, Weights | None, SideFiles]:
    """A `config.json`, or the output of `infd inspect -o json`, which has the checkpoint size too."""
    document = _document(path)
    result = parsed_result(json.dumps(document))
    if isinstance(result, Failure):
        raise UsageError(result.message)
    return (result.config, result.weights, result.side) if result else (document, None, NO_SIDE_FILES)


def _document(path: str) -> object:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from error
    if len(content) > MAX_CONFIG_BYTES:
        raise UsageError(f"{path}: is larger than {MAX_CONFIG_BYTES // 2**20} MiB, so it is not a config.json.")
    try:
        document: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is not valid JSON.") from error
    return document
