"""The rules of the setting `policy` about what an InferenceDeployment names, in Python and in CEL.

A rule says which texts are allowed of those that `named_parts` lists. The operator asks the rules in Python, and the
API server asks the same in CEL (`administrator_policy`). A test puts random resources to both.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from inference_operator.admission.named_parts import OCI
from inference_operator.admission.references import escaped, value_of
from inference_operator.api.administrator_policy import PUBLIC, VERSION_ENTRY, AdministratorPolicy
from inference_operator.api.disaggregation import PrefillParallelismSpec
from inference_operator.api.duration import duration
from inference_operator.api.hardware import Device
from inference_operator.api.spec import Spec
from inference_operator.text_tables import blocks

DOMAIN_KEY = "clusterDomain"
NAMESPACES_KEY = "namespaces"
MESSAGE_KEY = "{}.message"
DIGESTS_KEY = "images.digests"
SIGNATURES_KEY = "signatures"
GPUS_KEY = "gpus"
"""Keys of the parameters, beside those with the lists of rules, which have the names of the sections."""

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

_VERSIONED = f":v?({VERSION_ENTRY})([^0-9/@:][^/@:]*)?(@sha256:[0-9a-f]{{64}})?"
"""Ends a reference whose tag is a version, perhaps with more after it, such as `v0.32.0-x86_64`."""


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


@dataclass(frozen=True, slots=True)
class Allowed:
    holds: Callable[[str, Sequence[str], str], bool]
    """Of a text, the entries of the rule's section, and the cluster's domain."""
    cel: Callable[[str], str]
    """The same of `one`; its argument is the expression for the entries."""


def _beginning(*separators: str) -> Allowed:
    return Allowed(
        lambda text, entries, _: begins(text, entries, separators),
        lambda entries: _begins_cel("one", entries, separators),
    )


_DIGEST = "[^-].*@sha256:[0-9a-f]{64}"
_PATH = _beginning("/")
_ALLOWED: Mapping[str, Allowed] = {
    "path": _PATH,  # of a URL: `:` and `@` begin another host
    "reference": _beginning("/", ":", "@"),
    "endpoint": Allowed(
        lambda url, allowed, domain: (
            _PATH.holds(url, allowed, domain) or (PUBLIC in allowed and is_outside(url, domain))
        ),
        lambda allowed: f"{_PATH.cel(allowed)} || ('{PUBLIC}' in {allowed} && {_is_outside_cel('one')})",
    ),
    "version": Allowed(
        lambda image, allowed, _: is_at_least(image, allowed[0]),
        lambda allowed: _is_at_least_cel("one", f"{allowed}[0]"),
    ),
    "duration": Allowed(
        lambda text, allowed, _: duration(text) <= duration(allowed[0]),
        lambda allowed: f"duration(one) <= duration({allowed}[0])",
    ),
    "listed": Allowed(lambda text, allowed, _: text in allowed, lambda allowed: f"one in {allowed}"),
    "image": Allowed(lambda text, *_: text.startswith(OCI), lambda _: f"one.startsWith('{OCI}')"),
    "digest": Allowed(lambda text, *_: bool(re.fullmatch(_DIGEST, text)), lambda _: f"one.matches('^{_DIGEST}$')"),
}


# The table


@dataclass(frozen=True, slots=True)
class PolicyCheck:
    name: str
    """Of the variable in CEL."""
    section: str
    """Key of the section in the setting, and of its list among the parameters."""
    named: str
    """Of `NAMED`: what in a resource the rule judges."""
    allowed: Allowed
    flag: str
    """Key of the parameter that is `true` where the rule holds; empty: it holds where the list has entries."""
    problem: str
    cure: str
    """Ends with the list, which both sides add to it, where the rule has one."""

    @property
    def allows_cel(self) -> str:
        return self.allowed.cel(entries_cel(self.section))

    @property
    def active_cel(self) -> str:
        if self.flag:
            return f"variables.parameters[?'{self.flag}'].orValue('') == 'true'"
        return "true" if self.section == _ENDPOINTS else f"{entries_cel(self.section)}.size() > 0"

    def is_active(self, policy: AdministratorPolicy) -> bool:
        return self.flag in parameters(policy, "") if self.flag else bool(sections(policy)[self.section][0])


def entries_cel(section: str) -> str:
    return f"variables.{section}Allowed"


def _check(head: str, problem: str, cure: str) -> PolicyCheck:
    name, section, named, allowed, *flag = head.split()
    return PolicyCheck(name, section, named, _ALLOWED[allowed], "".join(flag), problem, cure)


_ENDPOINTS = "s3Endpoints"
"""The only section whose list is never empty."""
CHECKS = tuple(_check(*block) for block in blocks(__package__, "administrator-rules"))


def parameters(policy: AdministratorPolicy, cluster_domain: str, namespaces: Sequence[str] = ()) -> Mapping[str, str]:
    """The parameters of the admission policy, for the ConfigMap of the chart. No namespaces are all of them."""
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
        "evictionWait": (tuple(filter(None, [policy.eviction_wait.most])), policy.eviction_wait.message),
        "autoscalingBackends": (policy.autoscaling_backends.allowed, policy.autoscaling_backends.message),
        SIGNATURES_KEY: ((), policy.signatures.message),
        GPUS_KEY: ((), policy.gpus.message),
    }


LISTED = tuple(dict.fromkeys(check.section for check in CHECKS if not check.flag))


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
