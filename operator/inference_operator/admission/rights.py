"""The rights that a resource requires of its writer, beside those on InferenceDeployments, in CEL and in Python.

The operator creates pods for everybody who may write InferenceDeployments. So what gives more than a model that serves
requires the right that would give the same without the operator:

1. A field that decides what runs in a pod, which hosts it reaches, or on which reserved nodes: to create pods.
2. A field that becomes a Service, Ingress, HTTPRoute, InferencePool, autoscaler, long-lasting budget or claim of its
   own: to create such objects.
3. An argument or variable of the engine that is not known as harmless: to create pods. So does a variable from a
   Secret, unless it is made for a secret: the engine could show it.
4. The name of a Secret, ConfigMap or claim: to create pods, or the verb `use` on the object. For a Secret or ConfigMap
   also `get`. Never for a claim: `get` is in the role `view`, and shows no file.

The API server checks them with the policies of `writer_policy`, which knows the writer. `required_rights` says the same
without a cluster. The operator does not know who wrote a resource.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inference_operator.admission.references import kinds, references, value_at, value_of
from inference_operator.api.autoscaling import AutoscalingBackend
from inference_operator.api.duration import duration
from inference_operator.api.engine_kind import EngineKind
from inference_operator.api.model_gateway import ModelGatewaySpec
from inference_operator.engines.options import OptionClasses, unsafe_arguments, unsafe_variables
from inference_operator.hardware.resources import VENDOR
from inference_operator.manifest import CLAIM, Kind, Manifest

USE = "use"
"""The verb on an object that lends it to InferenceDeployments. Kubernetes itself has no such verb."""

MAX_NAMED = 13
"""References to one kind that are checked by name; more in one write require the right to create pods. The cost budget
of a policy allows 28 authorizer checks (Kubernetes 1.36, apiserver, pkg/cel/library/cost.go and
pkg/apis/cel/config.go): two for each reference, and one for pods."""


@dataclass(frozen=True, slots=True)
class Right:
    """A right in the namespace of the resource."""

    verb: str
    plural: str
    group: str = ""
    name: str = ""
    """Of one object; empty for all."""

    def __str__(self) -> str:
        """Return it as people say it.

        Examples:
            >>> str(Right("create", "ingresses", "networking.k8s.io")), str(Right("use", "secrets", name="hub"))
            ('create ingresses.networking.k8s.io', 'use secrets/hub')
        """
        kind = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"{self.verb} {kind}/{self.name}" if self.name else f"{self.verb} {kind}"


CREATE_PODS = Right("create", "pods")


@dataclass(frozen=True, slots=True)
class Requirement:
    field: str
    """Path of the field, with what in it needs the right."""
    any_of: tuple[Right, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """A condition of a resource under which its writer needs a right."""

    field: str
    """Path below `spec`."""
    asks: str
    """The condition in CEL, for `object`."""
    asked: Callable[[Manifest], Sequence[str]]
    """The same of a specification: one text for each part that needs the right, empty for the field itself."""
    right: Right = CREATE_PODS
    subject: str = "''"
    """What in the field needs the right, for messages: a CEL expression for text that is empty or ends with a space."""
    compared: bool = True
    """Whether an unchanged field needs no right. Else the condition compares for itself."""
    of_model: bool = False
    """Whether an unchanged field needs no right only for the same model: consent is given to one model's files."""
    of_kind: bool = False
    """Whether an unchanged field needs no right only for the same kind of engine: to another one it means another
    thing."""


def required_rights(spec: Manifest, options: Mapping[str, OptionClasses]) -> tuple[Requirement, ...]:
    return (*_of_checks(spec, options), *(need for kind in kinds() for need in _of_references(spec, kind)))


def kind_of(spec: Manifest) -> str:
    return str(part(spec, KIND_FIELD) or EngineKind.AUTO)


def checks(options: Mapping[str, OptionClasses]) -> Sequence[Check]:
    return (
        *map(_present, NEEDS_PODS),
        *map(_true, CONSENTS),
        *(_present(field, Right("create", plural, group)) for field, group, plural in NEEDS_RESOURCES),
        *(_backend(backend, Right("create", plural, group)) for backend, group, plural in _BACKENDS),
        _EVICTION_WAIT,
        *map(_amounts, AMOUNTS),
        _OWN_CLAIM,
        _ROUTED_NAMES,
        *(_other_namespaces(section, kind) for section in _AFFINITIES for kind in ("podAffinity", "podAntiAffinity")),
        *map(_gpu_resource, _GPU_FIELDS),
        _arguments(options),
        _variables(options),
    )


def gateway_checks() -> Sequence[Check]:
    """The same of a ModelGateway, whose fields are those of `router`."""
    section = "router."
    needs = [(field, CREATE_PODS) for field in NEEDS_PODS]
    needs += [(field, Right("create", plural, group)) for field, group, plural in NEEDS_RESOURCES]
    shared = {info.alias for info in ModelGatewaySpec.model_fields.values()}
    own = ((field.removeprefix(section), right) for field, right in needs if field.startswith(section))
    return (
        *(_present(field, right) for field, right in own if field.split(".")[0] in shared),
        *(_other_namespaces("scheduling.affinity", kind) for kind in ("podAffinity", "podAntiAffinity")),
    )


GATEWAY_SECRETS = ("keys.secretRef.name", "tls.secretRef.name", "ingress.tlsSecretRef.name")


def rights_on(kind: Kind, name: str) -> tuple[Right, ...]:
    """The rights of which one suffices to name an object."""
    verbs = (USE,) if kind == CLAIM else (USE, "get")
    return (CREATE_PODS, *(Right(verb, kind.plural, name=name) for verb in verbs))


def _of_checks(spec: Manifest, options: Mapping[str, OptionClasses]) -> Iterator[Requirement]:
    for check in checks(options):
        for part in check.asked(spec):
            yield Requirement(f"spec.{check.field}{f': {part}' if part else ''}", (check.right,))


def _of_references(spec: Manifest, kind: Kind) -> Iterator[Requirement]:
    for number, reference in enumerate(references(spec, kind)):
        name, field, *_ = reference.split(" ")
        yield Requirement(f"spec.{field}", rights_on(kind, name) if number < MAX_NAMED else (CREATE_PODS,))


# The table

NEEDS_PODS: tuple[str, ...] = (
    "model.s3.endpoint",
    "engine.image",
    "engine.multimodal.allowedDomains",
    "podTemplate",
    "hardware.network.resource",
    "hardware.network.ipcLock",
    "disaggregation.network.resource",
    "disaggregation.network.ipcLock",
    "scheduling.tolerations",
    "scheduling.priorityClassName",
    "scheduling.runtimeClassName",
    "scheduling.schedulerName",
    "router.podTemplate",
    "router.scheduling.tolerations",
    "router.scheduling.priorityClassName",
    "router.scheduling.runtimeClassName",
    "router.scheduling.schedulerName",
)
"""Fields that decide what runs in a pod, which devices and privileges it has, which hosts it reaches, or on which
reserved nodes and with which priority."""

CONSENTS: tuple[str, ...] = ("model.allowPickle",)
"""Fields that allow code of the model's author to run in a pod, if they are true."""

NEEDS_RESOURCES: tuple[tuple[str, str, str], ...] = (
    ("router.service", "", "services"),
    ("router.ingress", "networking.k8s.io", "ingresses"),
    ("router.httpRoute", "gateway.networking.k8s.io", "httproutes"),
    ("router.inferencePool", "inference.networking.k8s.io", "inferencepools"),
)
"""Fields that become an object of a kind, with its API group and plural: their type and annotations decide what is
published, and what controllers do."""

_BACKENDS: tuple[tuple[AutoscalingBackend, str, str], ...] = (
    (AutoscalingBackend.HPA, "autoscaling", "horizontalpodautoscalers"),
    (AutoscalingBackend.KEDA, "keda.sh", "scaledobjects"),
)
FREE_EVICTION_WAIT = "30m"
"""The longest time that anybody may hold a drain: twice a start of some minutes, and the default of
`settings.surgeWaitSeconds`, as the operator waits by itself."""

AMOUNTS: tuple[str, ...] = ("engine.resources.requests", "engine.resources.limits")
"""Maps of resource amounts. An extended resource in them is a device of the node; sizing computes the GPUs."""

_WAIT_FIELD = "scheduling.evictionWait"
_MORE = f"more than {FREE_EVICTION_WAIT}"
KIND_FIELD = "engine.kind"
_GPU_FIELDS = ("hardware.gpu.resourceName", "disaggregation.prefill.hardware.gpu.resourceName")

SHOWN = r"^(--[A-Za-z0-9._-]{1,64}|-[A-Za-z])$"
"""Names of options that a message may quote. The rest of an argument may be a secret, also directly after `-n`."""
_UNSHOWN = "a value"
_FIRST = "variables.unsafeArguments[0].split('=')[0]"
_SHOWN = re.compile(SHOWN)


def part(spec: Manifest, path: str) -> Any:  # noqa: ANN401 - JSON
    return value_at(spec, path.split("."))


def _present(field: str, right: Right = CREATE_PODS) -> Check:
    return Check(
        field,
        f"{value_of('object', field)}.hasValue()",
        lambda spec: [""] if part(spec, field) is not None else [],
        right,
    )


def _backend(backend: AutoscalingBackend, right: Right) -> Check:
    field = "autoscaling.backend"
    return Check(
        field,
        f"{value_of('object', field)}.orValue('') == '{backend}'",
        lambda spec: [backend] if part(spec, field) == backend else [],
        right,
        subject=f"'{backend} '",
    )


def _true(field: str) -> Check:
    return Check(
        field,
        f"{value_of('object', field)}.orValue(false)",
        lambda spec: [""] if part(spec, field) is True else [],
        of_model=True,
    )


def _amounts(field: str) -> Check:
    new, old = (f"{value_of(root, field)}.orValue({{}})" for root in ("object", "oldObject"))
    changed = f"(oldObject == null || !(name in {old}) || {old}[name] != {new}[name])"
    return Check(
        field,
        f"{new}.exists(name, name.contains('/') && {changed})",
        lambda spec: sorted(name for name in part(spec, field) or {} if "/" in name),
        subject="'an extended resource '",
        compared=False,
    )


def _gpu_resource(field: str) -> Check:
    return Check(
        field,
        f"!{value_of('object', field)}.orValue('{VENDOR}').startsWith('{VENDOR}')",
        lambda spec: [] if (part(spec, field) or VENDOR).startswith(VENDOR) else [""],
        subject=f"'a resource outside {VENDOR} '",
    )


def _holds_drains(spec: Manifest) -> list[str]:
    try:
        wait = duration(part(spec, _WAIT_FIELD) or "0s")
    except (TypeError, ValueError):  # the schema refuses it
        return []
    return [_MORE] if wait > duration(FREE_EVICTION_WAIT) else []


_EVICTION_WAIT = Check(
    _WAIT_FIELD,
    f"duration({value_of('object', _WAIT_FIELD)}.orValue('0s')) > duration('{FREE_EVICTION_WAIT}')",
    _holds_drains,
    Right("create", "poddisruptionbudgets", "policy"),
    subject=f"'{_MORE} '",
)
"""A budget that refuses evictions for so long."""


_AFFINITIES = ("scheduling.affinity", "router.scheduling.affinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _other_namespaces(section: str, kind: str) -> Check:
    """Terms about pods of other namespaces: they keep pods of others from nodes, or show where those run."""
    field = f"{section}.{kind}"
    foreign = "has({0}.namespaces) || has({0}.namespaceSelector)"
    required = f"{value_of('object', f'{field}.{_REQUIRED}')}.orValue([]).exists(t, {foreign.format('t')})"
    weighted = foreign.format("t.podAffinityTerm")
    preferred = f"{value_of('object', f'{field}.{_PREFERRED}')}.orValue([]).exists(t, {weighted})"

    def asked(spec: Manifest) -> list[str]:
        terms = [*(part(spec, f"{field}.{_REQUIRED}") or ())]
        terms += [preference["podAffinityTerm"] for preference in part(spec, f"{field}.{_PREFERRED}") or ()]
        return [""] if any("namespaces" in term or "namespaceSelector" in term for term in terms) else []

    return Check(field, f"{required} || {preferred}", asked)


_OWN_CLAIM = Check(
    "cache",
    f"{value_of('object', 'cache')}.hasValue() && !{value_of('object', 'cache.claimName')}.hasValue()",
    lambda spec: [""] if part(spec, "cache") is not None and part(spec, "cache.claimName") is None else [],
    Right("create", "persistentvolumeclaims"),
)
"""Without the name of a claim, `cache` creates one."""


def _routed_names() -> Check:
    """A new name of a model to which an HTTPRoute sends requests by name: that of another model would take its own."""
    field = "router.httpRoute.modelHeader"
    fields = ("model.servedName", "model.source")
    new, old = ([value_of(root, name) for name in fields] for root in ("object", "oldObject"))
    adapters, known = (f"{value_of(root, 'model.adapters')}.orValue([])" for root in ("object", "oldObject"))
    named = f"{new[0]} != {old[0]} || {new[1]} != {old[1]} && {new[1]}.orValue('').startsWith('hf://')"
    adapted = f"{adapters}.exists(one, !{known}.exists(before, before.name == one.name))"
    return Check(
        field,
        f"oldObject != null && {value_of('object', field)}.hasValue() && ({named} || {adapted})",
        lambda _: [],  # of a new resource, `router.httpRoute` needs it
        Right("create", "httproutes", "gateway.networking.k8s.io"),
        subject="'a new name of the model '",
        compared=False,
    )


_ROUTED_NAMES = _routed_names()


def _arguments(options: Mapping[str, OptionClasses]) -> Check:
    def asked(spec: Manifest) -> list[str]:
        return [*map(_shown, unsafe_arguments(part(spec, "engine.args") or (), options[kind_of(spec)]))]

    return Check(
        "engine.args",
        "variables.unsafeArguments.size() > 0",
        asked,
        subject=f"({_FIRST}.matches('{SHOWN}') ? {_FIRST} : '{_UNSHOWN}') + ' '",
        of_model=True,
        of_kind=True,
    )


def _shown(argument: str) -> str:
    name = argument.partition("=")[0]
    return name if _SHOWN.fullmatch(name) else _UNSHOWN


def _variables(options: Mapping[str, OptionClasses]) -> Check:
    def asked(spec: Manifest) -> Sequence[str]:
        env, classes = part(spec, "engine.env") or (), options[kind_of(spec)]
        secret = {item["name"] for item in env if part(item, "valueFrom.secretKeyRef")} - classes.secret_variables
        names = [item["name"] for item in env]
        unsafe = unsafe_variables(names, classes)
        return [name for name in names if name in secret or name in unsafe]

    return Check(
        "engine.env",
        "variables.unsafeVariables.size() > 0",
        asked,
        subject="variables.unsafeVariables[0] + ' '",
        of_model=True,
        of_kind=True,
    )
