"""What of an InferenceDeployment the setting `policy` judges: sources, images, S3 endpoints, hubs and others.

Each is a pair of a field and a text. In CEL a pair is one string, `FIELD TEXT`; no field contains a space. Each list is
written once in Python, for the operator, and once in CEL, for the API server. A test puts random resources to both.

What the administrator's defaults add is not listed, and neither is what a Secret or ConfigMap contains: a variable from
one counts as empty text, which no list allows.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from string import ascii_lowercase, ascii_uppercase

from inference_operator.admission.references import value_of
from inference_operator.api.autoscaling import AutoscalingBackend
from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.engine_kind import WITH_DRAFT, EngineKind, SpeculativeMethod
from inference_operator.api.pod_template import PodTemplateSpec
from inference_operator.api.spec import Spec

Named = tuple[str, str]
"""A field, as a path below `spec`, and what it names."""

OCI = "oci://"
_ENDPOINT_VARIABLE = "AWS_(.*ENDPOINT.*|PROXY_URL|CONTAINER_CREDENTIALS_FULL_URI)"
"""Variables in upper case that name a store or a service of tokens. Their reader ignores upper and lower case
(object_store 0.14, `aws/builder.rs`)."""
_HUB_VARIABLES = ("HF_ENDPOINT", "HUGGINGFACE_CO_STAGING", "VLLM_USE_MODELSCOPE", "SGLANG_USE_MODELSCOPE")
"""Variables that choose the hub: its URL, and two that choose another one (huggingface_hub 2.4.0, `constants.py`; vLLM
0.32.0, `envs.py`), so that their values are no URL."""
_DRAFT = "engine.speculative.model"
"""Counts as empty text where a method that loads a second model leaves the choice of it to the operator."""
_WITH_DRAFT = (SpeculativeMethod.AUTO, *WITH_DRAFT)
_LOWER, _UPPER = (
    str.maketrans(*letters) for letters in ((ascii_uppercase, ascii_lowercase), (ascii_lowercase, ascii_uppercase))
)
"""Change the letters of ASCII alone, as CEL does it."""
_DOCKER_HUB, _OFFICIAL = "docker.io/", "library/"
_IN_REGISTRY = re.compile("([^/]*[.:A-Z][^/]*|localhost)/")
"""Begins references whose first part is a registry (distribution/reference v0.6.0, normalize.go, splitDockerDomain)."""


def sources(spec: Spec) -> Iterator[Named]:
    yield "model.source", spec.model.source
    yield from ((f"model.adapters[{adapter.name}].source", adapter.source) for adapter in spec.model.adapters)
    if spec.engine.speculative.method in _WITH_DRAFT:
        yield _DRAFT, spec.engine.speculative.model or ""


def sources_cel(root: str) -> str:
    return (
        f"{value_of(root, 'model.source')}.optMap(one, ['model.source ' + one]).orValue([])"
        f" + {value_of(root, 'model.adapters')}.orValue([])"
        ".map(one, 'model.adapters[' + one.name + '].source ' + one.source)"
        f" + ({value_of(root, 'engine.speculative.method')}.orValue('Off') in {list(map(str, _WITH_DRAFT))}"
        f" ? ['{_DRAFT} ' + {value_of(root, _DRAFT)}.orValue('')] : [])"
    )


_OTHER_PROJECTS = (EngineKind.LLAMA_CPP, EngineKind.SGLANG)
"""Engines that do not run in images of vLLM."""


def vllm_images(spec: Spec) -> Iterator[Named]:
    """The image of an engine that runs in one of vLLM, or that the operator chooses."""
    if spec.engine.image is not None and spec.engine.kind not in _OTHER_PROJECTS:
        yield "engine.image", spec.engine.image


def vllm_images_cel(root: str) -> str:
    kind, image = value_of(root, "engine.kind"), value_of(root, "engine.image")
    others = [str(project) for project in _OTHER_PROJECTS]
    return f"{kind}.orValue('') in {others} ? [] : {image}.optMap(one, ['engine.image ' + one]).orValue([])"


_TEMPLATES = ("podTemplate", "router.podTemplate")
_CONTAINERS = ("sidecars", "initContainers")


def images(spec: Spec) -> Iterator[Named]:
    if spec.engine.image is not None:
        yield "engine.image", with_registry(spec.engine.image)
    for field, source in sources(spec):
        if source.startswith(OCI):
            yield field, with_registry(source.removeprefix(OCI))
    for field, template in zip(_TEMPLATES, (spec.pod_template, spec.router.pod_template), strict=True):
        yield from _images_of(field, template)


def _images_of(field: str, template: PodTemplateSpec) -> Iterator[Named]:
    for name, containers in zip(_CONTAINERS, (template.sidecars, template.init_containers), strict=True):
        for container in containers:
            yield f"{field}.{name}[{container.name}].image", with_registry(container.image)
    for volume in template.volumes:
        if volume.image is not None:
            yield f"{field}.volumes[{volume.name}].image.reference", with_registry(volume.image.reference)


def images_cel(root: str) -> str:
    of_engine = f"{value_of(root, 'engine.image')}.optMap(one, ['engine.image ' + {_registry_cel('one')}]).orValue([])"
    text = f"one.split(' ')[1].substring({len(OCI)})"
    of_sources = (
        f"({sources_cel(root)}).filter(one, one.split(' ')[1].startsWith('{OCI}'))"
        f".map(one, one.split(' ')[0] + ' ' + {_registry_cel(text)})"
    )
    of_containers = (
        f"{value_of(root, f'{field}.{name}')}.orValue([])"
        f".map(one, '{field}.{name}[' + one.name + '].image ' + {_registry_cel('one.image')})"
        for field in _TEMPLATES
        for name in _CONTAINERS
    )
    of_volumes = (
        f"{value_of(root, f'{field}.volumes')}.orValue([]).filter(one, has(one.image))"
        f".map(one, '{field}.volumes[' + one.name + '].image.reference ' + {_registry_cel('one.image.reference')})"
        for field in _TEMPLATES
    )
    return " + ".join((of_engine, of_sources, *of_containers, *of_volumes))


def with_registry(reference: str) -> str:
    """A reference with its registry, which is docker.io for one that has none.

    Examples:
        >>> with_registry("busybox:1"), with_registry("vllm/vllm-openai:v0.32.0")
        ('docker.io/library/busybox:1', 'docker.io/vllm/vllm-openai:v0.32.0')
        >>> with_registry("registry.example/a"), with_registry("localhost/a"), with_registry("EVIL/a")
        ('registry.example/a', 'localhost/a', 'EVIL/a')
    """
    if _IN_REGISTRY.match(reference):
        return reference
    return f"{_DOCKER_HUB}{'' if '/' in reference else _OFFICIAL}{reference}"


def _registry_cel(text: str) -> str:
    return (
        f"({text}.matches('^{_IN_REGISTRY.pattern}') ? '' : '{_DOCKER_HUB}'"
        f" + ({text}.contains('/') ? '' : '{_OFFICIAL}')) + {text}"
    )


def endpoints(spec: Spec) -> Iterator[Named]:
    """The stores of S3 that a resource names, in lower case."""
    if spec.model.s3.endpoint is not None:
        yield "model.s3.endpoint", spec.model.s3.endpoint.translate(_LOWER)
    named = re.compile(_ENDPOINT_VARIABLE)
    yield from _values(variable for variable in spec.engine.env if named.fullmatch(variable.name.translate(_UPPER)))


def endpoints_cel(root: str) -> str:
    of_variables = _values_cel(root, f"one.name.upperAscii().matches('^{_ENDPOINT_VARIABLE}$')")
    endpoint = value_of(root, "model.s3.endpoint")
    return f"{endpoint}.optMap(one, ['model.s3.endpoint ' + one.lowerAscii()]).orValue([]) + {of_variables}"


_WAIT = "scheduling.evictionWait"
_BACKEND = "autoscaling.backend"


def waits(spec: Spec) -> Iterator[Named]:
    if (wait := spec.scheduling.eviction_wait) is not None:
        yield _WAIT, f"{int(wait.total_seconds())}s"


def waits_cel(root: str) -> str:
    return f"{value_of(root, _WAIT)}.optMap(one, ['{_WAIT} ' + one]).orValue([])"


def backends(spec: Spec) -> Iterator[Named]:
    if spec.autoscaling is not None:
        yield _BACKEND, spec.autoscaling.backend


def backends_cel(root: str) -> str:
    backend = f"{value_of(root, _BACKEND)}.orValue('{AutoscalingBackend.BUILT_IN}')"
    return f"({value_of(root, 'autoscaling')}.hasValue() ? ['{_BACKEND} ' + {backend}] : [])"


def hubs(spec: Spec) -> Iterator[Named]:
    """The hubs that a resource names, in lower case; as empty text where it does not show which."""
    yield from _values(variable for variable in spec.engine.env if variable.name in _HUB_VARIABLES)
    if spec.pod_template.env_from:
        yield "podTemplate.envFrom", ""


def hubs_cel(root: str) -> str:
    of_variables = _values_cel(root, f"one.name in {list(_HUB_VARIABLES)}")
    whole = f"{value_of(root, 'podTemplate.envFrom')}.orValue([]).size() > 0"
    return f"{of_variables} + ({whole} ? ['podTemplate.envFrom '] : [])"


def _values(variables: Iterator[EnvironmentVariable]) -> Iterator[Named]:
    yield from ((f"engine.env[{variable.name}]", (variable.value or "").translate(_LOWER)) for variable in variables)


def _values_cel(root: str, condition: str) -> str:
    value = "(has(one.value) ? one.value.lowerAscii() : '')"
    return (
        f"{value_of(root, 'engine.env')}.orValue([]).filter(one, {condition})"
        f".map(one, 'engine.env[' + one.name + '] ' + {value})"
    )


NAMED: Mapping[str, tuple[Callable[[Spec], Iterator[Named]], Callable[[str], str]]] = {
    "sources": (sources, sources_cel),
    "images": (images, images_cel),
    "vllm_images": (vllm_images, vllm_images_cel),
    "endpoints": (endpoints, endpoints_cel),
    "hubs": (hubs, hubs_cel),
    "waits": (waits, waits_cel),
    "backends": (backends, backends_cel),
}
"""Each list: of a specification, and the CEL expression for the same of a root."""
