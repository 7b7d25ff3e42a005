"""No string of a resource is expanded by Kubernetes in a container of the operator's making."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from inference_operator.api.spec import Spec
from inference_operator.cli.cache.jobs import prune_job
from inference_operator.engines import registry
from inference_operator.manifest import DEPLOYMENT, JOB, Kind, Manifest
from inference_operator.model_files.uses import Use, Uses
from inference_operator.objects.container import process_fields
from inference_operator.objects.names import DOWNLOAD, ENGINE, INSPECTION, ROUTER, VERIFICATION
from inference_operator.pipeline.decide import outcome
from inference_operator.settings import ModelInspection, Settings
from tests.testing.builders import inference_deployment, inputs, known_claims, model_known
from tests.testing.everything import POD_TEMPLATE
from tests.testing.random_specs import Specs, places
from tests.testing.verified import REFERENCE, with_key

CANARY = "correct-horse-battery-staple"
"""The value of every variable, as of one that comes from a Secret."""
NAMED = "$(HF_TOKEN)"
SETTINGS = Settings(model_inspection=ModelInspection.ALWAYS)
PARTS = (
    "$",
    "$$",
    "$(",
    ")",
    NAMED,
    "$(A$(HF_TOKEN))",
    "HF_TOKEN",
    "a",
    "é",
    "\u20ac",
    "\U0001f600",
    "/",
    " ",
    "\n",
)
HOSTILE = st.lists(st.sampled_from(PARTS), min_size=1, max_size=8).map("".join)

EVERYTHING: Manifest = {
    "model": {"source": "hf://Qwen/Qwen3-8B", "servedName": "chat", "revision": "main"},
    "engine": {
        "args": ["--seed=8", "--chat-template", "x"],
        "env": [{"name": "HF_ENDPOINT", "value": "http://hub"}, {"name": "OTHER", "value": "1"}],
    },
    "podTemplate": POD_TEMPLATE,
    "router": {"podTemplate": POD_TEMPLATE, "ingress": {"host": "llm.example.com"}},
}
BUCKET: Manifest = {
    "model": {
        "source": "s3://models/qwen",
        "s3": {"endpoint": "https://s3.eu-1.example.com", "region": "eu-1", "credentialsSecretRef": {"name": "store"}},
    },
    "engine": {"env": [{"name": "HTTPS_PROXY", "value": "http://proxy"}]},
    "cache": {"claimName": "models"},
}
CLAIM: Manifest = {"model": {"source": "pvc://models/qwen/8b"}, "engine": EVERYTHING["engine"]}
SIGNED: Manifest = {
    "model": {"source": f"oci://{REFERENCE}", "verify": {"configMapRef": {"name": "keys"}}},
    "hardware": {"device": "CPU"},
    "engine": {"env": [{"name": "HTTPS_PROXY", "value": "http://proxy"}]},
}
SPECS: Mapping[str, Manifest] = {
    "hub": EVERYTHING,
    "cached": {**EVERYTHING, "cache": {"claimName": "models"}},
    "bucket": BUCKET,
    "claim": CLAIM,
    "image": SIGNED,
}


def expanded(text: str, value_of: Callable[[str], str]) -> str:
    """What Kubernetes makes of a string (Kubernetes 1.36, third_party/forked/golang/expansion/expand.go, `Expand`)."""
    done, at = "", 0
    while at < len(text):
        if text[at] != "$" or at + 1 == len(text):
            done, at = done + text[at], at + 1
            continue
        following, end = text[at + 1], text.find(")", at + 2)
        if following == "(" and end >= 0:
            done, at = done + value_of(text[at + 2 : end]), end + 1
        else:
            done, at = done + ("$" if following == "$" else f"${following}"), at + 2
    return done


def stolen(text: str) -> str:
    """The string where every name is that of a variable with a secret."""
    return expanded(text, lambda _name: CANARY)


def started(container: Manifest) -> Manifest:
    """Command, arguments and values of variables as the process of a container gets them."""
    return {
        "command": [stolen(text) for text in container.get("command", ())],
        "args": [stolen(text) for text in container.get("args", ())],
        "env": {
            one["name"]: stolen(one.get("value", "")) for one in container.get("env", ()) if "valueFrom" not in one
        },
    }


def probed_and_mounted(container: Manifest) -> Iterator[str]:
    """The other strings of a container that Kubernetes expands: commands of probes, and paths in volumes."""
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        yield from map(stolen, container.get(probe, {}).get("exec", {}).get("command", ()))
    for mount in container.get("volumeMounts", ()):
        yield stolen(mount.get("subPathExpr", ""))


def rendered(spec: Manifest) -> Iterator[tuple[str, Manifest]]:
    """The containers of the operator's making that a spec becomes, before and after its model is known; by name."""
    raw = inference_deployment(source="", **spec)
    asked = with_key(inputs(raw, settings=SETTINGS))
    asked = replace(asked, lookups={**asked.lookups, **known_claims(raw)})
    known = [model_known(raw)] if isinstance(asked.resource.spec, Spec) else []
    later = inputs(raw, settings=SETTINGS, children=known)
    for found in (asked, replace(later, lookups=asked.lookups)):
        for child in outcome(found).desired.values():
            yield from of_object(child)


def of_object(manifest: Manifest, kinds: Sequence[Kind] = (DEPLOYMENT, JOB)) -> Iterator[tuple[str, Manifest]]:
    """Its containers, without sidecars."""
    if manifest["kind"] in [kind.name for kind in kinds]:
        for container in manifest["spec"]["template"]["spec"]["containers"]:
            yield container["name"].partition("-")[0], container


def check(spec: Manifest) -> set[str]:
    """Assert that no process gets the secret, and that an engine gets the spec's strings; the containers' names."""
    seen = set()
    for name, container in rendered(spec):
        process = started(container)
        assert CANARY not in str([process, *probed_and_mounted(container)]), (name, container)
        if name == ENGINE:
            asked = spec.get("engine", {})
            given_args, env = list(asked.get("args", ())), asked.get("env", ())
            found = [process["args"][at : at + len(given_args)] for at in range(len(process["args"]))]
            assert given_args in [*found, []]
            assert {one["name"]: one["value"] for one in env if "value" in one}.items() <= process["env"].items()
        seen.add(name)
    return seen


def spoiled(spec: Manifest, place: tuple[Any, ...], text: str) -> Manifest | None:
    """The spec with another string there; None if the API refuses it."""
    changed = copy.deepcopy(spec)
    *way, last = place
    target: Any = changed
    for step in way:
        target = target[step]
    if not isinstance(target[last], str):
        return None
    target[last] = text
    try:
        Spec.model_validate(changed)
    except ValidationError:
        return None
    return changed


def dotted(place: tuple[Any, ...]) -> str:
    return ".".join(str(step) for step in place if isinstance(step, str))


@given(text=st.text(alphabet=st.one_of(st.sampled_from("$()A"), st.characters(codec="utf-8"))))
def test_a_process_gets_every_string_as_it_was_written(text: str) -> None:
    fields = process_fields(command=[text], args=[text, text], env=[{"name": "A", "value": text}])
    assert started(fields) == {"command": [text], "args": [text, text], "env": {"A": text}}


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("$(A)", "secret"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$secret"),
        ("$(A$(A))", "secret)"),
        ("$($(A)", "secret"),
        ("$(", "$("),
        ("$", "$"),
        ("$$", "$"),
        ("a$A$", "a$A$"),
    ],
)
def test_the_model_of_kubernetes_expands_as_kubernetes_does(text: str, becomes: str) -> None:
    """Cases of its own test (third_party/forked/golang/expansion/expand_test.go), and those around them."""
    assert expanded(text, lambda _name: "secret") == becomes


@pytest.mark.parametrize(
    ("spec", "containers"),
    [
        ("hub", {ENGINE, "haproxy", INSPECTION}),
        ("cached", {INSPECTION, DOWNLOAD}),
        ("bucket", {INSPECTION}),
        ("claim", {ENGINE, "haproxy", INSPECTION}),
        ("image", {VERIFICATION}),
    ],
)
def test_a_hostile_string_in_any_field_reaches_every_process_literally(spec: str, containers: set[str]) -> None:
    assert containers <= check(SPECS[spec])
    accepted = set()
    for place in places(SPECS[spec]):
        for text in (NAMED, f"x{NAMED}", f"--seed={NAMED}"):
            if changed := spoiled(SPECS[spec], place, text):
                check(changed)
                accepted.add(dotted(place))
    assert {"engine.env.value"} <= accepted
    if spec == "hub":
        assert {"engine.args", "podTemplate.annotations", "podTemplate.sidecars.args"} <= {
            place.removesuffix(".cluster-autoscaler.kubernetes.io/safe-to-evict") for place in accepted
        }


@given(seed=st.integers(0, 10_000), text=HOSTILE)
def test_hostile_strings_in_random_specs_are_expanded_nowhere(seed: int, text: str) -> None:
    drawn = Specs(seed).valid()
    for place in list(places(drawn)):
        for tried in (text, f"a{text}"):
            if changed := spoiled(drawn, place, tried):
                check(changed)


@given(text=HOSTILE)
def test_names_of_what_is_in_use_are_not_expanded_in_the_job_that_prunes(text: str) -> None:
    access = registry.ENGINES[registry.VLLM].access(Spec.model_validate(CLAIM).engine)
    uses = Uses((Use("a/b", "", f"Pod {text}"),), frozenset({text}))
    job = prune_job("models", "default", uses, access, SETTINGS, dry_run=False, node="")
    ((_, container),) = of_object(job)
    assert f"--keep=a/b=Pod {text}" in started(container)["args"]
    assert CANARY not in str(started(container))


def test_values_of_the_owners_own_variables_are_literal_too() -> None:
    defaults = {"env": [{"name": "HTTPS_PROXY", "value": NAMED}]}
    settings = Settings.model_validate({"engine_defaults": defaults, "router_defaults": defaults})
    made = outcome(inputs(inference_deployment(), settings=settings)).desired.values()
    found = [container for child in made for _, container in of_object(child)]
    assert [started(container)["env"]["HTTPS_PROXY"] for container in found] == [NAMED] * 3


def test_sidecars_keep_the_expansion_of_kubernetes() -> None:
    sidecar = {"name": "shipper", "image": "a", "args": [NAMED], "env": [{"name": "A", "value": "$(B)"}]}
    raw = inference_deployment(podTemplate={"sidecars": [sidecar]}, router={"podTemplate": {"sidecars": [sidecar]}})
    deployments = [one for ref, one in outcome(inputs(raw)).desired.items() if ref.kind == DEPLOYMENT]
    assert {one["metadata"]["labels"]["app.kubernetes.io/component"] for one in deployments} == {ENGINE, ROUTER}
    for one in deployments:
        (made,) = one["spec"]["template"]["spec"]["initContainers"]
        assert (made["args"], made["env"]) == (sidecar["args"], sidecar["env"])
