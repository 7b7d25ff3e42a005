"""What is in use on a claim, from resources, records and everything that mounts it."""

import pytest

from inference_operator.cli.cache.contents import ClaimObjects, models_on_claims
from inference_operator.jobs.download_result import Downloaded, downloaded_text
from inference_operator.manifest import Manifest
from inference_operator.model_files.pruning import CachedRepository, deletion_of, kernels_kept
from inference_operator.model_files.uses import (
    ANY,
    Use,
    claim_uses,
    keep_arguments,
    parsed_adapter_use,
    parsed_use,
)
from inference_operator.objects.names import DOWNLOAD, labels

A, B = "a" * 40, "b" * 40


def resource(name: str = "qwen", **spec: object) -> Manifest:
    stated = {"model": {"source": "hf://org/name"}, "cache": {"claimName": "models"}, **spec}
    return {"kind": "InferenceDeployment", "metadata": {"name": name, "namespace": "default"}, "spec": stated}


def record(name: str = "qwen", *, commit: str = A, claim: str = "models", manager: str = "") -> Manifest:
    own = {**labels(name, DOWNLOAD), **({"app.kubernetes.io/managed-by": manager} if manager else {})}
    data = {
        "download.json": downloaded_text(Downloaded(commit, 3 * 2**30, 2)),
        "claim": claim,
        "model": "hf://org/name",
    }
    return {"metadata": {"name": "r", "namespace": "default", "labels": own}, "data": data}


def mounting(kind: str, *words: str, claim: str = "models", sub_path: str = "", ended: bool = False) -> Manifest:
    mounts = [{"name": "model-cache", "mountPath": "/x", **({"subPath": sub_path} if sub_path else {})}]
    pod = {
        "containers": [{"name": "c", "args": list(words), "volumeMounts": mounts}],
        "volumes": [{"name": "model-cache", "persistentVolumeClaim": {"claimName": claim}}],
    }
    spec = pod if kind == "Pod" else {"template": {"spec": pod}}
    status = {"conditions": [{"type": "Complete", "status": "True"}]} if ended else {}
    return {"kind": kind, "metadata": {"name": "w", "namespace": "default"}, "spec": spec, "status": status}


def test_a_resource_uses_the_commit_that_its_record_names_and_every_commit_while_none_is_recorded() -> None:
    by = "InferenceDeployment qwen"
    assert claim_uses("models", [resource()], [], [record()]).models == (Use("org/name", A, by),)
    assert claim_uses("models", [resource()], [], []).models == (Use("org/name", "", by),)
    assert claim_uses("models", [resource()], [], [record("other")]).models == (Use("org/name", "", by),)


def test_a_draft_is_in_use_with_all_its_commits_whether_the_user_or_the_operator_names_it() -> None:
    stated = resource(engine={"speculative": {"method": "DraftModel", "model": "hf://org/draft", "revision": B}})
    chosen = record()
    chosen["data"]["draft"] = "org/head"
    by = "InferenceDeployment qwen"
    assert claim_uses("models", [stated], [], []).models == (Use("org/draft", "", by), Use("org/name", "", by))
    assert claim_uses("models", [resource()], [], [chosen]).models == (Use("org/head", "", by), Use("org/name", A, by))


def test_a_resource_with_a_branch_uses_every_commit_and_one_with_a_commit_that_one() -> None:
    branch = resource(model={"source": "hf://org/name", "revision": "v2"})
    pinned = resource(model={"source": "hf://org/name", "revision": B})
    assert [use.commit for use in claim_uses("models", [branch], [], [record()]).models] == [""]
    assert [use.commit for use in claim_uses("models", [pinned], [], [record()]).models] == [B]


def test_a_record_of_the_command_is_no_use() -> None:
    prefetched = record(manager="infd")
    assert claim_uses("models", [], [], [prefetched]).models == ()


def test_an_invalid_resource_and_the_claim_that_it_creates_count_too() -> None:
    broken = resource(cache={"size": 7}, nonsense=True)
    assert [use.repository for use in claim_uses("qwen-cache", [broken], [], []).models] == ["org/name"]
    assert claim_uses("models", [broken], [], []).models == ()


@pytest.mark.parametrize(
    ("source", "found"), [("later://org/name", [ANY]), (7, [ANY]), ("pvc://claim/path", []), ("oci://image", [])]
)
def test_a_source_that_is_not_understood_may_be_any_model(source: object, found: list[str]) -> None:
    uses = claim_uses("models", [resource(model={"source": source})], [], [])
    assert [use.repository for use in uses.models] == found
    assert deletion_of(CachedRepository("models--a--b", {A: True}), uses.models).everything is not bool(found)


def test_what_mounts_the_claim_uses_the_repositories_and_kernels_that_it_names() -> None:
    engine = mounting("Deployment", "org/former", f"--revision={A}", "--port=8000", sub_path="compiled/key")
    loader = mounting("Job", "hf://org/next", f"--revision={B}", "--kernels=other")
    over = mounting("Job", "hf://org/over", ended=True)
    elsewhere = mounting("Pod", "org/elsewhere", claim="x")
    found = claim_uses("models", [], [engine, loader, over, elsewhere], [])
    assert [(use.repository, use.commit) for use in found.models] == [("org/former", A), ("org/next", B)]
    assert found.kernels == {"key", "other"}


def test_a_source_that_names_a_file_is_a_use_of_its_repository() -> None:
    asked = resource(model={"source": "hf://org/gguf/Q4/a.gguf"})
    loader = mounting("Job", "hf://org/next/q4.gguf", f"--revision={B}", "--kernels=other")
    found = claim_uses("models", [asked], [loader], [])
    assert [use.repository for use in found.models] == ["org/gguf", "org/next"]


def test_a_path_on_the_claim_names_a_model_wherever_it_is_mounted() -> None:
    engine = mounting("Deployment", "serve", f"/mnt/hub/models--Qwen--Qwen3-8B/snapshots/{A}")
    copy = mounting("Job", "cp -r /mnt/hub/models--org--name /elsewhere")
    found = claim_uses("models", [], [engine, copy], [])
    assert [(use.repository, use.commit) for use in found.models] == [("Qwen/Qwen3-8B", A), ("org/name", "")]


@pytest.mark.parametrize(("manager", "found"), [("", [ANY]), ("inference-operator", []), ("infd", [])])
def test_what_mounts_the_claim_and_names_no_model_may_use_any_unless_it_is_ours(manager: str, found: list[str]) -> None:
    notebook = mounting("Pod", "jupyter", "lab")
    notebook["metadata"]["labels"] = {"app.kubernetes.io/managed-by": manager}
    assert [use.repository for use in claim_uses("models", [], [notebook], []).models] == found


def test_a_bucket_is_used_by_resources_jobs_and_the_engines_that_load_its_snapshot() -> None:
    bucket = resource(model={"source": "s3://bucket/a/b/"})
    engine = mounting("Deployment", "serve", f"/model-cache/s3--bucket--a--b/snapshots/{A}", "--port=8000")
    loader = mounting("Job", "infd", "download", "s3://bucket/next", f"--revision={B}")
    found = claim_uses("models", [bucket], [engine, loader], [])
    assert [(use.repository, use.commit) for use in found.models] == [
        ("s3://bucket/a/b", ""),
        ("s3://bucket/a/b", A),
        ("s3://bucket/next", B),
    ]
    texts = [text.removeprefix("--keep=") for text in keep_arguments(found) if text.startswith("--keep=")]
    assert tuple(map(parsed_use, texts)) == found.models


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("serve", f"/mnt/hub/models--Qwen--Qwen3-8B/snapshots/{A}"), [("Qwen/Qwen3-8B", A)]),
        ((f"--model=/mnt/hub/models--Qwen--Qwen3-8B/snapshots/{A}/",), [("Qwen/Qwen3-8B", A)]),
        (
            ("-c", f"cd /mnt/hub/models--a--b && serve '/mnt/hub/s3--b--x/snapshots/{A}'; x"),
            [("a/b", ""), ("s3://b/x", A)],
        ),
        (("--model", "/mnt/hub/models--a--b/snapshots/main", A), [("a/b", "")]),
        (("serve", "/mnt/hub/models--Qwen--*"), [(ANY, "")]),
        (("serve", "/mnt/hub/models--a--b", "/mnt/hub/models--$NAME"), [(ANY, ""), ("a/b", "")]),
    ],
)
def test_folders_of_models_in_the_words_of_another_workload_are_uses(
    words: tuple[str, ...], found: list[tuple[str, str]]
) -> None:
    uses = claim_uses("models", [], [mounting("Deployment", *words)], [])
    assert [(use.repository, use.commit) for use in uses.models] == found


@pytest.mark.parametrize(
    "place", [{"env": [{"name": "MODEL", "value": "/mnt/models--a--b"}]}, {"subPath": "hub/models--a--b"}]
)
def test_folders_of_models_in_variables_and_in_mounts_of_another_workload_are_uses(place: dict[str, object]) -> None:
    pod = mounting("Pod", "serve")
    (container,) = pod["spec"]["containers"]
    (container if "env" in place else container["volumeMounts"][0]).update(place)
    assert [(use.repository, use.commit) for use in claim_uses("models", [], [pod], []).models] == [("a/b", "")]


@pytest.mark.parametrize("words", [(), ("jupyter", "lab"), ("python", "app/main.py")])
def test_a_workload_of_others_that_names_no_model_may_use_every_model_and_all_kernels(words: tuple[str, ...]) -> None:
    uses = claim_uses("models", [], [mounting("Pod", *words)], [])
    assert not deletion_of(CachedRepository("models--a--b", {A: True}), uses.models).everything
    assert not deletion_of(CachedRepository("models--a--b", {A: True}), uses.models).commits
    assert kernels_kept("key", recent=False, uses=uses)
    assert not claim_uses("models", [], [mounting("Pod", *words, claim="x")], []).models


def test_each_container_that_mounts_the_claim_is_judged_alone() -> None:
    pod = mounting("Pod", "org/name")
    pod["spec"]["containers"].append({"name": "sidecar", "args": ["proxy"]})
    assert [use.repository for use in claim_uses("models", [], [pod], []).models] == ["org/name"]
    pod["spec"]["containers"][1]["volumeMounts"] = pod["spec"]["containers"][0]["volumeMounts"]
    assert [use.repository for use in claim_uses("models", [], [pod], []).models] == [ANY, "org/name"]


def test_uses_reach_the_job_unchanged() -> None:
    found = claim_uses("models", [resource()], [mounting("Pod", "a/b", sub_path="compiled/k")], [record()])
    texts = [text.removeprefix("--keep=") for text in keep_arguments(found) if text.startswith("--keep=")]
    assert tuple(map(parsed_use, texts)) == found.models
    assert "--keep-kernels=k" in keep_arguments(found)


def test_models_are_listed_as_complete_half_loaded_or_missing_with_their_users() -> None:
    loader = mounting("Job", "hf://org/next", "--revision=main")
    resources = [resource(), resource("b", model={"source": "hf://org/third"})]
    step = "Downloading 40 %, 62.0 of 146.0 GB, 3 min left"
    rows = models_on_claims(ClaimObjects(resources, [record()], [loader]), [step])
    assert [(one.model, one.state, one.size_bytes, one.used_by) for one in rows] == [
        ("org/name", "complete", 3 * 2**30, ("qwen",)),
        ("org/next", "half-loaded: Downloading 40 %, 62.0 of 146.0 GB, 3 min left", 0, ()),
        ("org/third", "not downloaded yet", 0, ("b",)),
    ]


def test_a_job_that_is_over_and_recorded_is_one_row() -> None:
    job = mounting("Job", "hf://org/name", ended=True)
    rows = models_on_claims(ClaimObjects([resource()], [record()], [job]), [""])
    assert [one.revision for one in rows] == [A]


def test_the_adapters_of_a_resource_are_in_use_on_its_claim_only() -> None:
    sources = ["hf://org/a", "oci://a.example/b:1", "not a source"]
    adapters = [{"name": f"a{number}", "source": source} for number, source in enumerate(sources)]
    listing = resource(model={"source": "hf://org/name", "adapters": adapters})
    found = claim_uses("models", [listing], [], []).adapters
    assert found is not None
    assert {use.repository for use in found} == {"org/a", "oci://a.example/b:1", ANY}
    assert claim_uses("other", [listing], [], []).adapters == ()
    uses = claim_uses("models", [listing], [], [])
    texts = [one.partition("=")[2] for one in keep_arguments(uses) if one.startswith("--keep-adapter=")]
    assert tuple(map(parsed_adapter_use, texts)) == uses.adapters


def test_a_pod_that_may_use_anything_keeps_all_adapters() -> None:
    found = claim_uses("models", [], [mounting("Pod", "jupyter")], []).adapters
    assert found is not None
    assert [use.repository for use in found] == [ANY]
