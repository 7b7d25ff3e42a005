"""`infd import`: resources of other projects, what is not taken over, and any file without a traceback."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import resource
from inference_operator.cli.import_.containers import serve_arguments
from inference_operator.cli.import_.origin import ForeignObject
from inference_operator.cli.import_.readers import READERS
from inference_operator.cli.parser import UsageError
from inference_operator.engines.vllm.imported import imported_arguments
from tests.cli.conftest import Infd
from tests.testing.golden import GoldenFile

FILES = Path(__file__).parent / "imported"
EXAMPLES = sorted(FILES.glob("*.yaml"))
"""Each has every field of its API that can say something about a model."""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_becomes_a_manifest_and_the_rest_is_said(
    infd: Infd, example: Path, snapshot: SnapshotAssertion
) -> None:
    status, said, complaints = infd("import", "-f", str(example))
    assert status == 0, complaints
    assert f"{said}\n# Standard error:\n{complaints}" == snapshot.use_extension(GoldenFile.ending("txt"))
    assert "s3cret" not in complaints
    for made in yaml.safe_load_all(said):
        assert not isinstance(resource({**made, "metadata": {**made["metadata"], "uid": ""}}).spec, Refusal)
    as_json = json.loads(infd("import", "-f", str(example), "-o", "json")[1])
    assert as_json.get("items", [as_json]) == list(yaml.safe_load_all(said))


def leaves(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict) and value:
        return [leaf for key, part in value.items() for leaf in leaves(part, (*path, key))]
    if isinstance(value, list) and value:
        return [leaf for at, part in enumerate(value) for leaf in leaves(part, (*path, at))]
    return [path]


SPECS = [one for example in EXAMPLES for one in yaml.safe_load_all(example.read_text())]


@pytest.mark.parametrize("manifest", SPECS, ids=lambda one: str(one["metadata"]["name"]))
def test_every_field_that_is_added_anywhere_is_reported(manifest: dict[str, Any]) -> None:
    """A field that the readers do not know is never dropped in silence."""
    read = READERS[manifest["apiVersion"], manifest["kind"]]
    places = {path[:-1] for path in leaves(manifest["spec"]) if isinstance(path[-1], str)}
    assert places
    for place in places:
        changed = copy.deepcopy(manifest)
        parent = changed["spec"]
        for step in place:
            parent = parent[step]
        parent["otter"] = 1
        origin = ForeignObject(changed)
        draft = read(origin)
        said = " ".join(field for field, _ in (*draft.notes, *origin.report()))
        assert "otter" in said or "otter" in json.dumps(draft.spec) or _is_left(origin, place), place


def _is_left(origin: ForeignObject, place: tuple[str | int, ...]) -> bool:
    """Whether a field that has the place in it is reported as a whole."""
    shown = "spec"
    wholes = {field for field, _ in origin.report()}
    for step in place:
        shown += f"[{step}]" if isinstance(step, int) else f".{step}"
        if shown in wholes:
            return True
    return False


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=12), part, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(SPECS), st.data())
def test_any_value_in_any_field_is_refused_or_taken_without_an_exception(manifest: dict[str, Any], data: Any) -> None:  # noqa: ANN401
    changed = copy.deepcopy(manifest)
    path = data.draw(st.sampled_from(leaves(changed["spec"])))
    cut = data.draw(st.integers(0, len(path) - 1))
    parent = changed["spec"]
    for step in path[:cut]:
        parent = parent[step]
    parent[path[cut]] = data.draw(JSON)
    origin = ForeignObject(changed)
    try:
        draft = READERS[changed["apiVersion"], changed["kind"]](origin)
    except UsageError:
        return
    list(origin.report())
    yaml.safe_dump(draft.manifest("a", ""))
    resource({"metadata": {"name": "a", "namespace": "b"}, "spec": draft.spec})


@given(JSON)
def test_any_specification_is_refused_or_taken_without_an_exception(spec: object) -> None:
    for read in READERS.values():
        origin = ForeignObject({"metadata": {"name": "a"}, "spec": spec})
        try:
            read(origin)
        except UsageError:
            continue
        list(origin.report())


@given(
    st.lists(st.sampled_from(["--model", "a", "-tp", "2", "--api-key=s3cret", "--no-x", "-1", "", "--", "-O2", "\x1b"]))
)
def test_any_arguments_are_divided_without_an_exception_or_a_secret(words: list[str]) -> None:
    found = imported_arguments(words)
    assert "s3cret" not in json.dumps([found.fields, found.kept, found.left, found.model])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "contains no KubeAI Model"),
        ("a: b: c\n", "is not valid YAML"),
        ("", "contains no"),
    ],
)
def test_a_file_without_a_model_is_refused(infd: Infd, text: str, complaint: str) -> None:
    status, said, complaints = infd("import", "-f", "-", stdin=text)
    assert (status, said) == (2, "")
    assert complaint in complaints


@pytest.mark.parametrize(
    ("kind", "spec", "complaint"),
    [
        ("kubeai.org/v1 Model", {"engine": "OLlama", "url": "ollama://a"}, "spec.engine: only VLLM"),
        ("kubeai.org/v1 Model", {"engine": "VLLM", "url": "gs://a/b"}, "spec.url: copy the model"),
        ("serving.kserve.io/v1alpha1 LLMInferenceService", {"model": {"uri": "gs://a"}}, "spec.model.uri: copy"),
        ("apps/v1 Deployment", {"template": {"spec": {"containers": [{"image": "nginx"}]}}}, "no container of it runs"),
    ],
)
def test_what_has_no_counterpart_is_refused_with_the_field(
    infd: Infd, kind: str, spec: dict[str, Any], complaint: str
) -> None:
    version, _, name = kind.partition(" ")
    manifest = {"apiVersion": version, "kind": name, "metadata": {"name": "a"}, "spec": spec}
    status, said, complaints = infd("import", "-f", "-", stdin=json.dumps(manifest))
    assert (status, said) == (1, "")
    assert complaint in complaints


def test_a_manifest_that_would_be_refused_is_printed_with_the_cure(infd: Infd) -> None:
    spec = {"engine": "VLLM", "url": "hf://a/b", "minReplicas": 5, "maxReplicas": 2}
    manifest = {"apiVersion": "kubeai.org/v1", "kind": "Model", "metadata": {"name": "Upper"}, "spec": spec}
    status, said, complaints = infd("import", "-f", "-", stdin=json.dumps(manifest))
    assert status == 1
    assert "hf://a/b" in said
    assert "Correct it before you apply it: 2 mistakes. (1) metadata.name" in complaints


def test_a_dotted_name_stays_the_name_in_requests(infd: Infd) -> None:
    spec = {"engine": "VLLM", "url": "hf://a/b", "maxReplicas": 2}
    manifest = {"apiVersion": "kubeai.org/v1", "kind": "Model", "metadata": {"name": "llama-3.1-8b"}, "spec": spec}
    status, said, complaints = infd("import", "-f", "-", stdin=json.dumps(manifest))
    made = yaml.safe_load(said)
    assert (status, made["metadata"]["name"]) == (0, "llama-3-1-8b")
    assert made["spec"]["model"]["servedName"] == "llama-3.1-8b"
    assert "metadata.name: is `llama-3-1-8b`" in complaints


def test_nothing_is_said_of_what_the_api_server_added(infd: Infd) -> None:
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.32.0", "args": ["--model=a/b"]}
    added = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
    pod = {"containers": [{**container, **added, "imagePullPolicy": "IfNotPresent", "resources": {}}]}
    defaulted = {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "securityContext": {}}
    live = {**pod, **defaulted, "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30}
    said = []
    for spec in (pod, live):
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
        text = json.dumps({**deployment, "spec": {"template": {"spec": spec}}})
        said.append(infd("import", "-f", "-", stdin=text))
    assert said[0] == said[1]
    assert said[1][0] == 0


def test_either_a_file_or_an_object_is_needed(infd: Infd) -> None:
    assert infd("import")[2] == "Write either KIND/NAME or -f FILE.\n"
    assert infd("import", "model/a", "-f", "b")[0] == 2
    assert infd("import", "pod/a")[2].startswith("Write KIND/NAME, with one of the kinds model")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["vllm", "serve", "a"], ["a"]),
        (["/usr/bin/python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "a"], ["--model", "a"]),
        (["bash", "-lc", "exec vllm serve a \\\n --seed 8"], ["a", "--seed", "8"]),
        (["sh", "-c", "vllm serve $MODEL"], None),
        (["sh", "-c", "vllm serve 'a"], None),
        (["ray", "start"], None),
    ],
)
def test_commands_that_start_vllm_are_read(words: list[str], found: list[str] | None) -> None:
    assert serve_arguments(words, []) == found


def test_an_empty_list_has_no_last_item() -> None:
    assert ForeignObject({"containers": []}).look(dict, "containers", -1) is None
