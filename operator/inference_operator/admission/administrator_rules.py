"""The rules of the setting `policy` about what an InferenceDeployment names, in Python and in CEL.

A rule says which texts are allowed of those that `named_parts` lists. The operator asks the rules in Python, and the
API server asks the same in CEL (`administrator_policy`). A test puts random resources to both.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from inference_operator.admission.named_parts import (
    OCI,
    Named,
    backends,
    backends_cel,
    endpoints,
    endpoints_cel,
    hubs,
    hubs_cel,
    images,
    images_cel,
    sources,
    sources_cel,
    vllm_images,
    vllm_images_cel,
    waits,
    waits_cel,
)
from inference_operator.admission.references import escaped, value_of
from inference_operator.api.administrator_policy import PUBLIC, VERSION_ENTRY, AdministratorPolicy
from inference_operator.api.disaggregation import PrefillParallelismSpec
from inference_operator.api.duration import duration
from inference_operator.api.hardware import Device
from inference_operator.api.spec import Spec

DOMAIN_KEY = "clusterDomain"
NAMESPACES_KEY = "namespaces"
MESSAGE_KEY = "{}.message"
DIGESTS_KEY = "images.digests"
SIGNATURES_KEY = "signatures"
GPUS_KEY = "gpus"
"""Keys of the parameters, beside those with the lists of rules, which have the names of the sections."""

_PATH, _REFERENCE = ("/",), ("/", ":", "@")
"""Separators after an entry: of a URL a path, since `:` and `@` begin another host, and of a reference a tag or digest
too."""

PUBLIC_NAME = (
    r"https?://([a-z0-9]([-a-z0-9]*[a-z0-9])?\.){2,}[a-z]([-a-z0-9]*[a-z0-9])?(:[0-9]{1,5})?/?"  # in lower case
)
"""The URL of a host that may be outside the cluster: a DNS name of three labels or more. A pod completes shorter ones
to the Service of a namespace (Kubernetes 1.36, "DNS for Services and Pods"). The last label begins with a letter, so
it is no IP address in any spelling."""
INSIDE_NAME = (
    r".*\.(svc|pod|local|localhost|localdomain|internal|intranet|lan|home|corp|private)(:[0-9]{1,5})?/?"
    r"|.*\.(svc\..*|home\.arpa(:[0-9]{1,5})?/?)"
)
"""URLs of names that are never public: Services and pods, and private networks (RFC 6762 appendix G, RFC 6761, RFC
8375; ICANN reserved `internal` in 2024). Metadata services of clouds have names below `internal`."""

_DIGEST = "[^-].*@sha256:[0-9a-f]{64}"
_HAS_DIGEST_CEL = f"one.matches('^{_DIGEST}$')"
_VERSIONED = f":v?({VERSION_ENTRY})([^0-9/@:][^/@:]*)?(@sha256:[0-9a-f]{{64}})?"
"""Ends a reference whose tag is a version, perhaps with more after it, such as `v0.32.0-x86_64`."""


@dataclass(frozen=True, slots=True)
class PolicyCheck:
    name: str
    """Of the variable in CEL."""
    section: str
    """Key of the section in the setting, and of its list among the parameters."""
    named: Callable[[Spec], Iterator[Named]]
    """The names in a resource that the rule judges."""
    named_cel: Callable[[str], str]
    """The CEL expression for the list of the same, of `object` or `oldObject`."""
    active: Callable[[AdministratorPolicy], bool]
    """Whether the administrator limits it."""
    active_cel: str
    """The same in CEL."""
    allows: Callable[[str, AdministratorPolicy, str], bool]
    """Whether a text is allowed, by the policy and the cluster's domain."""
    allows_cel: str
    """The same of `one` in CEL."""
    problem: str
    cure: str
    """May end with the list, which both sides add to it."""
    lists: bool = True
    """Whether the list of what is allowed follows the cure."""

    @property
    def listing(self) -> str:
        """Name of the variable in CEL with what a resource names."""
        return f"named_{self.named.__name__}"


# What is allowed


def begins(text: str, entries: Sequence[str], separators: Sequence[str]) -> bool:
    """Whether a text is one of the entries, or goes on after one.

    Examples:
        >>> begins("hf://Qwen/Qwen3-8B", ["hf://Qwen"], ["/"]), begins("hf://Qwen-evil/a", ["hf://Qwen"], ["/"])
        (True, False)
        >>> begins("hf://Qwen/Qwen3-8B", ["hf://"], ["/"])
        True
    """
    return any(
        text == entry
        or text.startswith((entry,) if entry.endswith("/") else tuple(entry + separator for separator in separators))
        for entry in entries
    )


def _begins_cel(text: str, entries: str, separators: Sequence[str]) -> str:
    after = " || ".join(f"{text}.startsWith(entry + '{separator}')" for separator in separators)
    return f"{entries}.exists(entry, {text} == entry || (entry.endsWith('/') ? {text}.startsWith(entry) : ({after})))"


_PUBLIC_NAME, _INSIDE_NAME = re.compile(PUBLIC_NAME), re.compile(INSIDE_NAME)


def is_outside(url: str, cluster_domain: str) -> bool:
    """Whether the name in a URL, in lower case, may be one outside the cluster. Nothing is resolved.

    Examples:
        >>> is_outside("https://s3.eu-central-1.amazonaws.com", "cluster.local")
        True
        >>> inside = ("http://169.254.169.254", "http://localhost:9000", "http://minio.storage", "http://2130706433")
        >>> any(is_outside(url, "cluster.local") for url in inside)
        False
    """
    if not _PUBLIC_NAME.fullmatch(url) or _INSIDE_NAME.fullmatch(url):
        return False
    host = url.split("/")[2].partition(":")[0]
    return not host.endswith(f".{cluster_domain}")


def _is_outside_cel(text: str) -> str:
    public, inside = (escaped(pattern) for pattern in (PUBLIC_NAME, INSIDE_NAME))
    return (
        f"{text}.matches('^({public})$') && !{text}.matches('^({inside})$')"
        f" && !{text}.split('/')[2].split(':')[0].endsWith('.' + variables.{DOMAIN_KEY})"
    )


def is_at_least(image: str, version: str) -> bool:
    """Whether the tag of an image is this version or a later one.

    Examples:
        >>> [is_at_least(f"vllm/vllm-openai:{tag}", "0.31.0") for tag in ("v0.31.0", "v0.32.0-x86_64", "v0.9.2", "new")]
        [True, True, False, False]
    """
    match = re.fullmatch(f".*{_VERSIONED}", image)
    return match is not None and _number(match[1]) >= _number(version)


def _number(version: str) -> int:
    major, minor, patch = map(int, version.split("."))
    return (major * _PART + minor) * _PART + patch


_PART = 10_000
"""Above each part of a version, which has at most four digits."""


def _is_at_least_cel(text: str, version: str) -> str:
    tag = f"{text}.find('{_VERSIONED}$').find('{VERSION_ENTRY}')"
    return f"{text}.matches('^.*{_VERSIONED}$') && {_number_cel(tag)} >= {_number_cel(version)}"


def _number_cel(version: str) -> str:
    parts = f"{version}.split('.')"
    return f"(int({parts}[0]) * {_PART} + int({parts}[1])) * {_PART} + int({parts}[2])"


def _has_digest(text: str, _: AdministratorPolicy, __: str) -> bool:
    return re.fullmatch(_DIGEST, text) is not None


def _is_set_cel(key: str) -> str:
    return f"variables.parameters[?'{key}'].orValue('') == 'true'"


# The table


def entries_cel(section: str) -> str:
    return f"variables.{section}Allowed"


_ENDPOINTS, _WAIT, _BACKENDS = "s3Endpoints", "evictionWait", "autoscalingBackends"
CHECKS: tuple[PolicyCheck, ...] = (
    PolicyCheck(
        "modelSources",
        "modelSources",
        sources,
        sources_cel,
        lambda policy: bool(policy.model_sources.allowed),
        f"{entries_cel('modelSources')}.size() > 0",
        lambda text, policy, _: begins(text, policy.model_sources.allowed, _REFERENCE),
        _begins_cel("one", entries_cel("modelSources"), _REFERENCE),
        "does not allow this source.",
        "Use one that begins with",
    ),
    PolicyCheck(
        "images",
        "images",
        images,
        images_cel,
        lambda policy: bool(policy.images.allowed),
        f"{entries_cel('images')}.size() > 0",
        lambda text, policy, _: begins(text, policy.images.allowed, _REFERENCE),
        _begins_cel("one", entries_cel("images"), _REFERENCE),
        "does not allow this image.",
        "Use one that begins with",
    ),
    PolicyCheck(
        "digests",
        "images",
        images,
        images_cel,
        lambda policy: policy.images.digests,
        _is_set_cel(DIGESTS_KEY),
        _has_digest,
        _HAS_DIGEST_CEL,
        "allows only images by digest.",
        "End the reference with `@sha256:` and the 64 digits of the image.",
        lists=False,
    ),
    PolicyCheck(
        "hubs",
        "hubs",
        hubs,
        hubs_cel,
        lambda policy: bool(policy.hubs.allowed),
        f"{entries_cel('hubs')}.size() > 0",
        lambda text, policy, _: begins(text, policy.hubs.allowed, _PATH),
        _begins_cel("one", entries_cel("hubs"), _PATH),
        "does not allow this hub, or cannot see which one it is.",
        "Remove it, or write as a value one of",
    ),
    PolicyCheck(
        "s3Endpoints",
        _ENDPOINTS,
        endpoints,
        endpoints_cel,
        lambda _: True,
        "true",
        lambda text, policy, domain: (
            begins(text, policy.s3_endpoints.allowed, _PATH)
            or (PUBLIC in policy.s3_endpoints.allowed and is_outside(text, domain))
        ),
        f"{_begins_cel('one', entries_cel(_ENDPOINTS), _PATH)}"
        f" || ('{PUBLIC}' in {entries_cel(_ENDPOINTS)} && {_is_outside_cel('one')})",
        "does not allow this endpoint.",
        f"Remove it, or use one of these, where `{PUBLIC}` is a DNS name of three labels or more outside the cluster:",
    ),
    PolicyCheck(
        "vllmVersion",
        "vllmVersion",
        vllm_images,
        vllm_images_cel,
        lambda policy: bool(policy.vllm_version.least),
        f"{entries_cel('vllmVersion')}.size() > 0",
        lambda text, policy, _: is_at_least(text, policy.vllm_version.least),
        _is_at_least_cel("one", f"{entries_cel('vllmVersion')}[0]"),
        "does not allow this version of vLLM, or cannot see which one it is.",
        "Remove it, or use an image whose tag is a version from this one on:",
    ),
    PolicyCheck(
        _WAIT,
        _WAIT,
        waits,
        waits_cel,
        lambda policy: bool(policy.eviction_wait.most),
        f"{entries_cel(_WAIT)}.size() > 0",
        lambda text, policy, _: duration(text) <= duration(policy.eviction_wait.most),
        f"duration(one) <= duration({entries_cel(_WAIT)}[0])",
        "does not allow so long a wait.",
        "Remove it, or set at most",
    ),
    PolicyCheck(
        _BACKENDS,
        _BACKENDS,
        backends,
        backends_cel,
        lambda policy: bool(policy.autoscaling_backends.allowed),
        f"{entries_cel(_BACKENDS)}.size() > 0",
        lambda text, policy, _: text in policy.autoscaling_backends.allowed,
        f"one in {entries_cel(_BACKENDS)}",
        "does not allow this backend.",
        "Remove `spec.autoscaling`, or use one of",
    ),
    PolicyCheck(
        "signedModels",
        SIGNATURES_KEY,
        sources,
        sources_cel,
        lambda policy: bool(policy.signatures.key),
        _is_set_cel(SIGNATURES_KEY),
        lambda text, _, __: text.startswith(OCI),
        f"one.startsWith('{OCI}')",
        "requires a signature, which only an image can have.",
        f"Use `{OCI}registry/name@sha256:...`, signed with the key of the administrator.",
        lists=False,
    ),
    PolicyCheck(
        "signedImages",
        SIGNATURES_KEY,
        images,
        images_cel,
        lambda policy: bool(policy.signatures.key),
        _is_set_cel(SIGNATURES_KEY),
        _has_digest,
        _HAS_DIGEST_CEL,
        "requires a signature, which only an image by digest can have.",
        "End the reference with `@sha256:` and the 64 digits of an image that the administrator has signed.",
        lists=False,
    ),
)


def parameters(policy: AdministratorPolicy, cluster_domain: str, namespaces: Sequence[str] = ()) -> Mapping[str, str]:
    """The parameters of the admission policy: what the chart writes into a ConfigMap.

    Args:
        namespaces: those of the operator; empty for all.
    """
    lists = {section: ",".join(allowed) for section, (allowed, _) in sections(policy).items()}
    messages = {MESSAGE_KEY.format(section): message for section, (_, message) in sections(policy).items()}
    most = policy.gpus.most
    data = {
        DOMAIN_KEY: cluster_domain,
        NAMESPACES_KEY: ",".join(namespaces),
        **lists,
        DIGESTS_KEY: "true" if policy.images.digests else "",
        SIGNATURES_KEY: "true" if policy.signatures.key else "",
        GPUS_KEY: "" if most is None else str(most),
        **messages,
    }
    return {key: value for key, value in data.items() if value}


def sections(policy: AdministratorPolicy) -> Mapping[str, tuple[Sequence[str], str]]:
    """The list and the administrator's sentence of each section."""
    return {
        "modelSources": (policy.model_sources.allowed, policy.model_sources.message),
        "images": (policy.images.allowed, policy.images.message),
        "hubs": (policy.hubs.allowed, policy.hubs.message),
        _ENDPOINTS: (policy.s3_endpoints.allowed, policy.s3_endpoints.message),
        "vllmVersion": (tuple(filter(None, [policy.vllm_version.least])), policy.vllm_version.message),
        _WAIT: (tuple(filter(None, [policy.eviction_wait.most])), policy.eviction_wait.message),
        _BACKENDS: (policy.autoscaling_backends.allowed, policy.autoscaling_backends.message),
        SIGNATURES_KEY: ((), policy.signatures.message),
        GPUS_KEY: ((), policy.gpus.message),
    }


LISTED = tuple(dict.fromkeys(check.section for check in CHECKS if check.lists))


def stated_gpus(spec: Spec) -> int:
    """The fewest GPUs of all engines that a specification can lead to, as far as its fields say."""
    if spec.hardware.device is Device.CPU:
        return 0
    sizes, prefill = spec.parallelism, spec.disaggregation.prefill if spec.disaggregation else None
    gpus = max(sizes.nodes or 1, (sizes.tensor or 1) * (sizes.pipeline or 1) * (sizes.data or 1)) * spec.most_replicas
    if prefill is None:
        return gpus
    own = prefill.parallelism or PrefillParallelismSpec()
    return gpus + (own.tensor or sizes.tensor or 1) * (own.pipeline or sizes.pipeline or 1) * prefill.most_replicas


def stated_gpus_cel(root: str) -> str:
    nodes, *sizes = (f"{value_of(root, f'parallelism.{name}')}.orValue(1)" for name in ("nodes", *_SIZES))
    of_engine = f"({nodes} > {' * '.join(sizes)} ? {nodes} : {' * '.join(sizes)})"
    engines = _most_cel(root, "")
    apart = f"{value_of(root, 'disaggregation')}.hasValue() ? {_prefill_gpus_cel(root)} : 0"
    is_on_cpus = f"{value_of(root, 'hardware.device')}.orValue('{Device.GPU}') == '{Device.CPU}'"
    return f"({is_on_cpus} ? 0 : {of_engine} * {engines} + ({apart}))"


def _most_cel(root: str, section: str) -> str:
    most, fixed = (value_of(root, f"{section}{field}") for field in ("autoscaling.maxReplicas", "replicas"))
    return f"{most}.orValue({fixed}.orValue(1))"


def _prefill_gpus_cel(root: str) -> str:
    section = "disaggregation.prefill."
    sizes = (
        f"{value_of(root, f'{section}parallelism.{name}')}.or({value_of(root, f'parallelism.{name}')}).orValue(1)"
        for name in ("tensor", "pipeline")
    )
    return " * ".join((*sizes, _most_cel(root, section)))


_SIZES = ("tensor", "pipeline", "data")
