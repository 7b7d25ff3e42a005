"""The command `infd import`, which prints InferenceDeployments and says what it could not take over."""

import argparse
import sys

from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import resource
from inference_operator.cli.cluster_command import ClusterCommand
from inference_operator.cli.files import read_objects
from inference_operator.cli.import_.origin import ForeignObject
from inference_operator.cli.import_.readers import KINDS, READERS, Reader
from inference_operator.cli.output import manifests_text
from inference_operator.cli.parser import EXIT_NOT_FOUND, EXIT_REFUSED, UsageError, harmless
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import Manifest, Ref
from inference_operator.models.source import model_source
from inference_operator.views.raw import mapping


def run(options: argparse.Namespace) -> int:
    if bool(options.object) == bool(options.filename):
        raise UsageError("Write either KIND/NAME or -f FILE.")
    found = read_objects(options.filename) if options.filename else [_of_cluster(options)]
    made, status = [], 0
    for one in found:
        label = f"{harmless(str(one.get('kind') or '?'))} {harmless(str(mapping(one, 'metadata').get('name') or '?'))}"
        read = READERS.get((str(one.get("apiVersion")), str(one.get("kind"))))
        if read is None:
            print(f"{label}: not read, since it describes no model.", file=sys.stderr)
            continue
        try:
            made.append(_imported(one, read, label))
        except UsageError as error:
            print(f"{label}: {harmless(str(error))}", file=sys.stderr)
            status = EXIT_REFUSED
    if not made and not status:
        known = "no KubeAI Model, no Deployment and no KServe LLMInferenceService"
        raise UsageError(f"{options.filename}: contains {known}.")
    if made:
        print(manifests_text(made, options.output))
    refused = [one for one in made if _is_refused(one)]
    return EXIT_REFUSED if refused else status


def _imported(one: Manifest, read: Reader, label: str) -> Manifest:
    origin = ForeignObject(one)
    draft = read(origin)
    for field, why in (*draft.notes, *origin.report()):
        print(f"{label}: {harmless(f'{field}: {why}')}", file=sys.stderr)
    metadata = mapping(one, "metadata")
    made = draft.manifest(str(metadata.get("name") or ""), str(metadata.get("namespace") or ""))
    if (name := made["metadata"]["name"]) != metadata.get("name"):
        print(
            f"{label}: metadata.name: is `{harmless(name)}`, since a Service has no dots in its name.", file=sys.stderr
        )
    return made


def _is_refused(made: Manifest) -> bool:
    raw = {**made, "metadata": {**made["metadata"], "uid": "", "generation": 1}}
    found = resource(raw).spec
    refusal = found if isinstance(found, Refusal) else model_source(found.model.source)
    if isinstance(refusal, Refusal):
        print(f"Correct it before you apply it: {harmless(refusal.message)}", file=sys.stderr)
    return isinstance(refusal, Refusal)


def _of_cluster(options: argparse.Namespace) -> Manifest:
    word, _, name = options.object.lower().partition("/")
    kinds = next((kinds for key, kinds in KINDS.items() if word in {key, f"{key}s"}), None)
    if not kinds or not name:
        raise UsageError(f"Write KIND/NAME, with one of the kinds {', '.join(KINDS)}.")

    async def read(cluster: KubeCluster) -> Manifest | None:
        for kind in kinds:
            if found := await cluster.get(Ref(kind, options.namespace, name)):
                return found
        return None

    found = ClusterCommand(options, cure="Check that kubectl gets it with the same kubeconfig.").run(read)
    if found is None:
        raise UsageError(f"There is no {word} `{name}` in the namespace `{options.namespace}`.", EXIT_NOT_FOUND)
    return found
