"""What the setting `policy` does not allow, and the words for it."""

from typing import Any

import pytest

from inference_operator.admission.administrator_refusals import refusal_of_gpus, refusal_of_policy
from inference_operator.admission.administrator_rules import is_outside, parameters, stated_gpus
from inference_operator.api.administrator_policy import AdministratorPolicy
from inference_operator.api.reasons import Reason
from inference_operator.api.spec import Spec
from inference_operator.manifest import Manifest

DOMAIN = "cluster.local"
SENTENCE = "Ask platform@example.com."
DIGEST = f"@sha256:{'0' * 64}"
KEY = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----\n"


def spec(**fields: Any) -> Spec:  # noqa: ANN401 - JSON
    return Spec.model_validate({"model": {"source": "hf://Qwen/Qwen3-8B"}, **fields})


def fields(asked: Spec, **policy: Any) -> list[str]:  # noqa: ANN401 - JSON
    """The fields that a policy does not allow."""
    found = refusal_of_policy(asked, AdministratorPolicy.model_validate(policy), DOMAIN)
    return [one.field for one in found.mistakes] if found else []


def of_source(source: str, *allowed: str) -> list[str]:
    cache: Manifest = {"cache": {}} if source.startswith("s3://") else {}
    return fields(spec(model={"source": source}, **cache), modelSources={"allowed": allowed})


def of_image(image: str, *allowed: str) -> list[str]:
    return fields(spec(engine={"image": image}), images={"allowed": allowed})


@pytest.mark.parametrize(
    ("source", "allowed"),
    [
        ("hf://Qwen/Qwen3-8B", "hf://"),
        ("hf://Qwen/Qwen3-8B", "hf://Qwen/"),
        ("hf://Qwen/Qwen3-8B", "hf://Qwen"),
        ("hf://Qwen/Qwen3-8B", "hf://Qwen/Qwen3-8B"),
        ("hf://org/name/a.gguf", "hf://org/name"),
        ("oci://registry.example/models/a:1", "oci://registry.example/models/a"),
        (f"oci://registry.example/models/a{DIGEST}", "oci://registry.example/models/a"),
        ("s3://models/a/b", "s3://models/a"),
        ("pvc://models", "pvc://models"),
    ],
)
def test_a_source_below_an_entry_is_allowed(source: str, allowed: str) -> None:
    assert of_source(source, "hf://other/", allowed) == []


@pytest.mark.parametrize(
    ("speculative", "refused"),
    [
        ({"method": "Ngram"}, False),
        ({"method": "DraftModel", "model": "hf://Qwen/Qwen3-0.6B"}, False),
        ({"method": "DraftModel", "model": "hf://org/draft"}, True),
        ({"method": "EAGLE3"}, True),
        ({"method": "Auto"}, True),
    ],
)
def test_a_draft_is_a_source_and_one_that_nobody_names_is_below_no_entry(
    speculative: Manifest, refused: object
) -> None:
    asked = spec(engine={"speculative": speculative})
    assert fields(asked, modelSources={"allowed": ["hf://Qwen/"]}) == ["spec.engine.speculative.model"] * bool(refused)


@pytest.mark.parametrize(
    ("source", "allowed"),
    [
        ("hf://Qwen-evil/a", "hf://Qwen"),
        ("hf://Qwen/Qwen3-8B-evil", "hf://Qwen/Qwen3-8B"),
        ("hf://qwen/Qwen3-8B", "hf://Qwen/"),
        ("oci://registry.example.evil/models/a", "oci://registry.example/"),
        ("oci://registry.example:5000/models/a", "oci://registry.example/"),
        ("s3://models-evil/a", "s3://models"),
        ("pvc://models", "hf://"),
    ],
)
def test_a_source_that_only_begins_like_an_entry_is_refused(source: str, allowed: str) -> None:
    assert of_source(source, allowed) == ["spec.model.source"]


def test_sources_of_adapters_are_judged_like_that_of_the_model() -> None:
    adapters = [{"name": "sql", "source": "hf://org/sql"}, {"name": "own", "source": "hf://Qwen/own"}]
    asked = spec(model={"source": "hf://Qwen/Qwen3-8B", "adapters": adapters}, cache={})
    assert fields(asked, modelSources={"allowed": ["hf://Qwen/"]}) == ["spec.model.adapters[sql].source"]


@pytest.mark.parametrize(
    ("image", "allowed"),
    [
        ("vllm/vllm-openai:v0.32.0", "docker.io/vllm/vllm-openai"),
        ("busybox", "docker.io/library/"),
        ("docker.io/a/b:1", "docker.io/"),
        (f"registry.example:5000/a{DIGEST}", "registry.example:5000/"),
        ("localhost/a", "localhost/"),
    ],
)
def test_an_image_of_an_allowed_registry_is_allowed(image: str, allowed: str) -> None:
    assert of_image(image, allowed) == []


@pytest.mark.parametrize(
    ("image", "allowed"),
    [
        ("EVIL/a", "docker.io/"),
        ("localhost/a", "docker.io/"),
        ("evil.example/docker.io/a", "docker.io/"),
        ("docker.io.evil.example/a", "docker.io/"),
        ("Docker.io/a/b", "docker.io/"),
        ("registry.example:5000/a", "registry.example/"),
        ("docker.io/vllm/vllm-openai-evil:1", "docker.io/vllm/vllm-openai"),
    ],
)
def test_an_image_of_another_registry_is_refused(image: str, allowed: str) -> None:
    assert of_image(image, allowed) == ["spec.engine.image"]


def test_every_image_that_a_resource_names_is_judged() -> None:
    template = {
        "sidecars": [{"name": "a", "image": "evil.example/a"}],
        "initContainers": [{"name": "b", "image": "evil.example/b"}],
        "volumes": [{"name": "c", "image": {"reference": "evil.example/c"}}, {"name": "d", "emptyDir": {}}],
    }
    adapters = [{"name": "sql", "source": "oci://evil.example/d"}]
    asked = spec(
        model={"source": "oci://evil.example/m", "adapters": adapters},
        engine={"image": "evil.example/e"},
        cache={},
        podTemplate=template,
        router={"podTemplate": template},
    )
    of_template = ("sidecars[a].image", "initContainers[b].image", "volumes[c].image.reference")
    assert fields(asked, images={"allowed": ["docker.io/"]}) == [
        "spec.engine.image",
        "spec.model.source",
        "spec.model.adapters[sql].source",
        *(f"spec.podTemplate.{one}" for one in of_template),
        *(f"spec.router.podTemplate.{one}" for one in of_template),
    ]


def test_an_image_without_a_digest_is_refused_where_digests_are_required() -> None:
    digests = {"digests": True}
    assert fields(spec(engine={"image": "docker.io/a/b:1"}), images=digests) == ["spec.engine.image"]
    assert fields(spec(engine={"image": f"docker.io/a/b{DIGEST}"}), images=digests) == []
    assert fields(spec(), images=digests) == []


def test_models_adapters_and_images_must_be_images_by_digest_where_signatures_are_required() -> None:
    key: Manifest = {"key": KEY, "message": SENTENCE}
    adapters = [{"name": "sql", "source": "hf://org/sql"}, {"name": "own", "source": "oci://docker.io/a/b:1"}]
    asked = spec(
        model={"source": "hf://Qwen/Qwen3-8B", "adapters": adapters}, engine={"image": "docker.io/a/b:1"}, cache={}
    )
    assert fields(asked, signatures=key) == [
        "spec.model.source",
        "spec.model.adapters[sql].source",
        "spec.engine.image",
        "spec.model.adapters[own].source",
    ]
    signed = spec(model={"source": f"oci://docker.io/a/b{DIGEST}"}, engine={"image": f"docker.io/a/b{DIGEST}"})
    assert fields(signed, signatures=key) == []
    assert fields(asked, signatures={"message": SENTENCE}) == []


@pytest.mark.parametrize(
    "endpoint",
    [
        *("http://169.254.169.254", "http://[fe80::1]", "http://127.0.0.1:9000", "http://[::1]", "http://10.0.0.1"),
        *("http://2130706433", "http://0x7f.0.0.1", "http://0177.0.0.1", "http://1.2.3.4", "http://[::ffff:1.2.3.4]"),
        *("http://localhost", "http://a.b.localhost", "http://minio", "http://minio.storage", "http://MINIO.storage"),
        *("http://minio.storage.svc:9000", "http://minio.storage.svc.cluster.local", "http://a.b.svc.other.example"),
        *("http://metadata.google.internal", "http://10-0-0-1.default.pod", "http://a.b.c.", "http://a..b.c"),
    ],
)
def test_without_a_rule_an_endpoint_that_may_be_inside_the_cluster_is_refused(endpoint: str) -> None:
    asked = spec(model={"source": "s3://models/a", "s3": {"endpoint": endpoint}}, cache={})
    assert fields(asked) == ["spec.model.s3.endpoint"]


def test_a_name_below_the_clusters_own_domain_is_inside() -> None:
    assert is_outside("https://minio.storage.example.com", DOMAIN)
    assert not is_outside("https://minio.storage.example.com:9000", "example.com")


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_endpoint", "AWS_METADATA_ENDPOINT"])
def test_a_variable_that_names_a_store_is_judged_like_the_field(name: str) -> None:
    def variable(**value: Any) -> Spec:  # noqa: ANN401 - JSON
        return spec(engine={"env": [{"name": name, **value}]})

    assert fields(variable(value="http://169.254.169.254")) == [f"spec.engine.env[{name}]"]
    assert fields(variable(valueFrom={"secretKeyRef": {"name": "a", "key": "b"}})) == [f"spec.engine.env[{name}]"]
    assert fields(variable(value="https://s3.eu-1.example.com")) == []


def test_an_endpoint_that_the_owner_lists_may_be_inside() -> None:
    asked = spec(model={"source": "s3://models/a", "s3": {"endpoint": "http://minio.storage.svc:9000"}}, cache={})
    assert fields(asked, s3Endpoints={"allowed": ["Public", "http://minio.storage.svc:9000"]}) == []
    assert fields(asked, s3Endpoints={"allowed": ["Public", "http://minio.storage.svc"]}) == ["spec.model.s3.endpoint"]


@pytest.mark.parametrize(
    ("variable", "is_allowed"),
    [
        ({"name": "HF_ENDPOINT", "value": "https://hub.example"}, True),
        ({"name": "HF_ENDPOINT", "value": "https://hub.example/mirror"}, True),
        ({"name": "HF_ENDPOINT", "value": "https://hub.example@evil.example"}, False),
        ({"name": "HF_ENDPOINT", "value": "https://hub.example:8443"}, False),
        ({"name": "HF_ENDPOINT", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}, False),
        ({"name": "VLLM_USE_MODELSCOPE", "value": "true"}, False),
        ({"name": "HF_TOKEN", "value": "a"}, True),
    ],
)
def test_a_hub_is_one_of_the_list(variable: Manifest, is_allowed: bool) -> None:  # noqa: FBT001 - a table
    found = fields(spec(engine={"env": [variable]}), hubs={"allowed": ["https://hub.example"]})
    assert found == ([] if is_allowed else [f"spec.engine.env[{variable['name']}]"])


def test_variables_of_whole_objects_are_refused_where_hubs_are_limited() -> None:
    asked = spec(podTemplate={"envFrom": [{"secretRef": {"name": "a"}}]})
    assert fields(asked, hubs={"allowed": ["https://hub.example"]}) == ["spec.podTemplate.envFrom"]
    assert fields(asked) == []


@pytest.mark.parametrize(
    ("asked", "gpus"),
    [
        ({}, 1),
        ({"replicas": 0}, 0),
        ({"hardware": {"device": "CPU"}, "replicas": 9}, 0),
        ({"parallelism": {"tensor": 4, "pipeline": 2}, "replicas": 3}, 24),
        ({"parallelism": {"nodes": 2}, "replicas": 3}, 6),
        ({"parallelism": {"tensor": 2, "data": 8}}, 16),
        ({"replicas": 1, "autoscaling": {"maxReplicas": 8}}, 8),
        ({"disaggregation": {}, "parallelism": {"tensor": 4}, "replicas": 2}, 12),
        ({"disaggregation": {"prefill": {"replicas": 0}}}, 1),
        ({"disaggregation": {"prefill": {"parallelism": {"tensor": 2}, "autoscaling": {"maxReplicas": 3}}}}, 7),
    ],
)
def test_the_fewest_gpus_of_a_resource_follow_from_its_fields(asked: Manifest, gpus: int) -> None:
    assert stated_gpus(spec(**asked)) == gpus
    assert bool(fields(spec(**asked), gpus={"most": gpus})) is False
    assert bool(gpus and fields(spec(**asked), gpus={"most": gpus - 1})) is bool(gpus)


def test_a_refusal_of_gpus_has_the_sum_and_the_owners_sentence() -> None:
    policy = AdministratorPolicy.model_validate({"gpus": {"most": 4, "message": SENTENCE}})
    stated = refusal_of_policy(spec(replicas=8), policy, DOMAIN)
    sized = refusal_of_gpus(spec(replicas=2), policy, per_engine=4)
    assert stated is not None
    assert stated.message == (
        "spec.replicas: The policy of this cluster (`gpus`) allows 4 GPUs of one resource, and this asks for at least"
        " 8. Lower `spec.replicas`, `spec.autoscaling.maxReplicas`, `spec.parallelism` or the engines of"
        " `spec.disaggregation.prefill`. Ask platform@example.com."
    )
    assert sized is not None
    assert sized.reason is Reason.REFUSED_BY_POLICY
    assert "this needs 8: 2 engines of 4 each." in sized.message
    assert sized.message.endswith(SENTENCE)
    assert refusal_of_gpus(spec(replicas=1), policy, per_engine=4) is None


def test_a_list_that_is_too_long_for_a_message_is_left_out() -> None:
    allowed = [f"hf://organization-{number}/" for number in range(32)]
    found = refusal_of_policy(
        spec(), AdministratorPolicy.model_validate({"modelSources": {"allowed": allowed}}), DOMAIN
    )
    assert found is not None
    assert found.cure == "Use one that begins with those that the administrator lists."


def test_no_message_contains_a_value_of_the_resource() -> None:
    variables = [{"name": name, "value": "http://secret-value"} for name in ("HF_ENDPOINT", "AWS_ENDPOINT_URL")]
    asked = spec(
        model={"source": "s3://secret-value/a", "s3": {"endpoint": "http://secret-value"}},
        engine={"image": "secret-value/a", "env": variables},
        cache={},
    )
    policy: Manifest = {
        "modelSources": {"allowed": ["hf://"]},
        "images": {"allowed": ["docker.io/a/"], "digests": True},
        "hubs": {"allowed": ["https://hub.example"]},
    }
    found = refusal_of_policy(asked, AdministratorPolicy.model_validate(policy), DOMAIN)
    assert found is not None
    assert len(found.mistakes) == 6
    assert "secret-value" not in found.message


@pytest.mark.parametrize(
    "wrong",
    [
        {"modelSources": {"allowed": ["gs://bucket"]}},
        {"modelSources": {"allowed": ["oci://registry.example"]}},
        {"modelSources": {"allowed": ["hf://a,hf://b"]}},
        {"modelSources": {"allowed": ["hf://a", "hf://a"]}},
        {"images": {"allowed": ["registry.example"]}},
        {"images": {"allowed": ["Registry.example/"]}},
        {"images": {"allowed": ["registry.example/a b"]}},
        {"hubs": {"allowed": ["https://hub.example/path"]}},
        {"s3Endpoints": {"allowed": []}},
        {"s3Endpoints": {"allowed": ["public"]}},
        {"gpus": {"most": -1}},
        {"evictionWait": {"most": "1h30m"}},
        {"autoscalingBackends": {"allowed": ["Both"]}},
        {"vllmVersion": {"least": "0.31"}},
        {"vllmVersion": {"least": "v0.31.0"}},
        {"gpus": {"message": "two\nlines"}},
        {"gpu": {"most": 1}},
        {"signatures": {"key": "not a key"}},
        {"signatures": {"key": KEY.replace("PUBLIC", "PRIVATE")}},
        {"signatures": {"key": f"{KEY}{KEY}"}},
    ],
)
def test_a_wrong_policy_is_an_error_in_the_settings(wrong: Manifest) -> None:
    with pytest.raises(ValueError, match="validation error"):
        AdministratorPolicy.model_validate(wrong)


def test_parameters_hold_every_rule_that_is_set() -> None:
    policy: Manifest = {
        "modelSources": {"allowed": ["hf://Qwen/", "pvc://"], "message": SENTENCE},
        "images": {"allowed": ["docker.io/"], "digests": True, "message": SENTENCE},
        "gpus": {"most": 0},
        "vllmVersion": {"least": "0.31.0"},
        "evictionWait": {"most": "1h"},
        "autoscalingBackends": {"allowed": ["BuiltIn", "HPA"]},
        "signatures": {"key": KEY, "message": SENTENCE},
    }
    assert parameters(AdministratorPolicy.model_validate(policy), DOMAIN) == {
        "clusterDomain": DOMAIN,
        "modelSources": "hf://Qwen/,pvc://",
        "modelSources.message": SENTENCE,
        "images": "docker.io/",
        "images.digests": "true",
        "images.message": SENTENCE,
        "s3Endpoints": "Public",
        "vllmVersion": "0.31.0",
        "evictionWait": "1h",
        "autoscalingBackends": "BuiltIn,HPA",
        "signatures": "true",
        "signatures.message": SENTENCE,
        "gpus": "0",
    }


@pytest.mark.parametrize(
    ("engine", "refused"),
    [
        ({}, False),
        ({"image": "vllm/vllm-openai:v0.31.0"}, False),
        ({"image": f"registry.example:5000/own:1.0.0-x86_64{DIGEST}"}, False),
        ({"image": "vllm/vllm-openai:v0.30.9"}, True),
        ({"image": "vllm/vllm-openai:v0.9.99"}, True),
        ({"image": "vllm/vllm-openai:latest"}, True),
        ({"image": f"vllm/vllm-openai{DIGEST}"}, True),
        ({"image": "vllm/vllm-openai:v0.31.0@x:v0.3.0"}, True),
        ({"image": "vllm/vllm-openai:v0.30.9", "kind": "Transformers"}, True),
        ({"image": "ghcr.io/ggml-org/llama.cpp:server", "kind": "LlamaCpp"}, False),
    ],
)
def test_an_engine_needs_a_tag_with_the_least_version_of_vllm(engine: Manifest, refused: bool) -> None:  # noqa: FBT001
    assert fields(spec(engine=engine), vllmVersion={"least": "0.31.0"}) == ["spec.engine.image"] * refused


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"scheduling": {"evictionWait": "60m"}}, ""),
        ({"scheduling": {"evictionWait": "1h1s"}}, "spec.scheduling.evictionWait"),
        ({"autoscaling": {"maxReplicas": 2}}, ""),
        ({"autoscaling": {"maxReplicas": 2, "backend": "KEDA"}}, "spec.autoscaling.backend"),
        ({"autoscaling": {"maxReplicas": 2, "backend": "HPA"}}, "spec.autoscaling.backend"),
        ({}, ""),
    ],
)
def test_the_administrator_bounds_waits_of_drains_and_backends_of_autoscaling(asked: Manifest, field: str) -> None:
    policy = {"evictionWait": {"most": "1h"}, "autoscalingBackends": {"allowed": ["BuiltIn"]}}
    assert fields(spec(**asked), **policy) == ([field] if field else [])
    assert fields(spec(**asked)) == []


def test_the_refusal_of_a_wait_names_the_longest() -> None:
    policy = AdministratorPolicy.model_validate({"evictionWait": {"most": "1h", "message": SENTENCE}})
    refusal = refusal_of_policy(spec(scheduling={"evictionWait": "2h"}), policy, DOMAIN)
    assert refusal is not None
    assert refusal.message == (
        "spec.scheduling.evictionWait: The policy of this cluster (`evictionWait`) does not allow so long a wait."
        f" Remove it, or set at most 1h. {SENTENCE}"
    )
