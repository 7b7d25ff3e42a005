"""Generates the ValidatingAdmissionPolicies that stop users from gaining rights through the operator.

They require of who writes an InferenceDeployment the rights of `rights.py`. A field is checked when it is added or
changed, not when it is removed. The policies apply to the resource itself, not to its subresources status and `/scale`.
The operator never writes the resource itself.

Each kind of object that a resource can name has a policy of its own, since the checks of one policy are limited.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

import yaml

from inference_operator.admission.policy import Policy, Validation
from inference_operator.admission.references import (
    FILES,
    escaped,
    kinds,
    references_cel,
    sourced_lists,
    sources_cel,
    value_of,
)
from inference_operator.admission.rights import (
    CREATE_PODS,
    GATEWAY_SECRETS,
    KIND_FIELD,
    MAX_NAMED,
    Check,
    Right,
    checks,
    gateway_checks,
    rights_on,
)
from inference_operator.api.engine_kind import EngineKind
from inference_operator.engines.options import JSON, NUMBER, OptionClasses
from inference_operator.manifest import GROUP, INFERENCE_DEPLOYMENT, MODEL_GATEWAY, PLURAL, SECRET, Kind, Manifest

POLICY_NAME = f"{PLURAL}.{GROUP}"
CHILDREN = files(__package__).joinpath("children-policy.yaml").read_text(encoding="utf-8")

_PODS = "mayCreatePods"
_SAME_MODEL = " && ".join(
    f"{value_of('object', field)} == {value_of('oldObject', field)}" for field in ("model.source", "model.revision")
)
"""Whether a change keeps the model. Files of another one could be code, or show what the engine has."""
_SAME_FILES = f"{_SAME_MODEL} && variables.newItems.size() == 0"
"""Whether a change also brings no other files beside the model, such as those of an adapter."""
_REACHES: Mapping[str, str] = {
    "model.tokenSecretRef.name": "one.source.startsWith('hf://') && !has(one.tokenSecretRef)",
    "model.s3.credentialsSecretRef.name": "one.source.startsWith('s3://')",
}
"""Which items with files of their own get what a field of the model lends, in CEL; of other fields, all do."""
_OF_ANY_MODEL = ("model.source", "cache.claimName")
"""Fields whose objects another model may have too, as those of the routers: they hold models, or no engine has them."""


def writer_policies(options: Mapping[str, OptionClasses]) -> list[Manifest]:
    fields = _policy(POLICY_NAME, list(_field_variables(options)), [_validation(check) for check in checks(options)])
    policies = (fields, *map(_reference_policy, kinds()), _gateway_policy())
    generated = [manifest for policy in policies for manifest in policy.manifests]
    return [*generated, *yaml.safe_load_all(CHILDREN)]


def _gateway_policy() -> Policy:
    """The policy of ModelGateways: what they have of routers needs the same rights."""
    secrets = (_secret_check(field) for field in GATEWAY_SECRETS)
    checked = [*map(_validation, gateway_checks()), *secrets]
    known = ((_PODS, _authorizer(CREATE_PODS)),)
    return Policy(MODEL_GATEWAY.resource, MODEL_GATEWAY, checked, known)


def _secret_check(field: str) -> Validation:
    new, old = value_of("object", field), value_of("oldObject", field)
    name = f"{new}.orValue('')"
    _, *on_object = rights_on(SECRET, "")
    allowed = " || ".join(_authorizer(right, name) for right in on_object)
    message = (
        f"'spec.{field}: the Secret ' + {name} + ' requires the right to create pods, or the verb use or get on it, in"
        " namespace ' + request.namespace + '. Use another one, or request one of these rights.'"
    )
    same = f"(oldObject != null && {new} == {old})"
    return Validation(f"!{new}.hasValue() || {same} || variables.{_PODS} || {allowed}", message)


def _policy(name: str, variables: Sequence[tuple[str, str]], validations: Sequence[Validation]) -> Policy:
    known = ((_PODS, _authorizer(CREATE_PODS)), *_item_variables(), *variables)
    return Policy(name, INFERENCE_DEPLOYMENT, validations, known)


def _item_variables() -> Iterator[tuple[str, str]]:
    """The items with files of their own that a change brings: those that are new, or have other files than before.

    One that loses its own token is new too: it would get that of the model.
    """
    known = f"{FILES} + (has(one.tokenSecretRef) ? ' own' : '')"
    yield "knownFiles", f"oldObject == null ? [] : ({sources_cel('oldObject')}).map(one, {known})"
    yield "newItems", f"({sources_cel('object')}).filter(one, !(({known}) in variables.knownFiles))"


def _authorizer(right: Right, name: str = "") -> str:
    """The CEL expression for whether the writer has a right; `name` is an expression for the object's name."""
    of_object = f".name({name})" if name else ""
    kind = f"authorizer.group('{right.group}').resource('{right.plural}').namespace(request.namespace)"
    return f"{kind}{of_object}.check('{right.verb}').allowed()"


def _field_variables(options: Mapping[str, OptionClasses]) -> Iterator[tuple[str, str]]:
    yield "kind", _kind("object")
    own = {kind: classes for kind, classes in options.items() if kind != EngineKind.AUTO}
    for kind, classes in own.items():
        known = classes.safe | classes.managed if classes.unsafe is None else classes.unsafe
        yield f"options{kind}", str(sorted(known))
        yield f"environment{kind}", str(sorted(classes.harmless_variables))
        yield f"secretEnvironment{kind}", str(sorted(classes.secret_variables))
    yield "unsafeArguments", _unsafe_arguments(own)
    yield "unsafeVariables", _unsafe_variables(own)


def _unsafe_arguments(own: Mapping[str, OptionClasses]) -> str:
    name, is_json = "one.split('=')[0]", f"matches('{escaped(JSON)}')"
    harmless = {
        kind: f"{name} in variables.options{kind}"
        if classes.unsafe is None
        else f"!({name} in variables.options{kind})"
        for kind, classes in own.items()
    }
    option = f"!({_of_kind(harmless)}) || one.split('=', 2).exists(value, value.{is_json})"
    unsafe = f"one.startsWith('-') && !one.matches('{NUMBER}') ? ({option}) : one.{is_json}"
    return f"{value_of('object', 'engine.args')}.orValue([]).filter(one, {unsafe})"


def _unsafe_variables(own: Mapping[str, OptionClasses]) -> str:
    prefixes = {kind: classes.own_prefix for kind, classes in own.items() if classes.own_prefix}

    def listed(name: str) -> str:
        """Whether a variable is in the list of this name of the resource's kind."""
        known = {kind: f"one.name in variables.{name}{kind}" for kind in own}
        others = {
            kind: [f"one.name.startsWith('{begin}')" for other, begin in prefixes.items() if other != kind]
            for kind in own
        }
        return _of_kind(known, {kind: " || ".join((text, *others[kind])) for kind, text in known.items()})

    shown = f"has(one.valueFrom) && has(one.valueFrom.secretKeyRef) && !({listed('secretEnvironment')})"
    unsafe = f"!({listed('environment')}) || {shown}"
    return f"{value_of('object', 'engine.env')}.orValue([]).filter(one, {unsafe}).map(one, one.name)"


def _of_kind(own: Mapping[str, str], joint: Mapping[str, str] | None = None) -> str:
    """The condition of the kind that the resource names; for `Auto` all conditions, or all of `joint`.

    Examples:
        >>> _of_kind({"A": "a", "B": "b"})
        "variables.kind == 'A' ? (a) : variables.kind == 'B' ? (b) : (a) && (b)"
    """
    each = " ".join(f"variables.kind == '{kind}' ? ({condition}) :" for kind, condition in own.items())
    return f"{each} {' && '.join(f'({condition})' for condition in (joint or own).values())}"


def _kind(root: str) -> str:
    """The kind of engine of `object` or `oldObject`, in CEL."""
    return f"{value_of(root, KIND_FIELD)}.orValue('{EngineKind.AUTO}')"


def _validation(check: Check) -> Validation:
    new, old = value_of("object", check.field), value_of("oldObject", check.field)
    same = " && ".join(
        (
            f"oldObject != null && {new} == {old}",
            *([_SAME_FILES] if check.of_model else []),
            *([f"variables.kind == {_kind('oldObject')}"] if check.of_kind else []),
        )
    )
    unchanged = f" || ({same})" if check.compared else ""
    allowed = f"variables.{_PODS}" if check.right == CREATE_PODS else _authorizer(check.right)
    message = (
        f"'spec.{check.field}: ' + {check.subject} + 'requires the right to {check.right} in namespace '"
        " + request.namespace + '. Remove it, or request this right.'"
    )
    return Validation(f"!({check.asks}){unchanged} || {allowed}", message)


def _reference_policy(kind: Kind) -> Policy:
    of_any = f"one.split(' ')[1].startsWith('router.') || one.split(' ')[1] in {list(_OF_ANY_MODEL)}"
    known = f"({references_cel('oldObject', kind)}).filter(one, ({_SAME_MODEL}) && ({_kept()}) || {of_any})"
    variables = [
        ("known", f"oldObject == null ? [] : {known}"),
        ("references", f"({references_cel('object', kind)}).filter(one, !(one in variables.known))"),
    ]
    many = Validation(
        f"variables.references.size() <= {MAX_NAMED} || variables.{_PODS}",
        f"'spec: more than {MAX_NAMED} new names of {kind.plural} require the right to create pods in namespace '"
        " + request.namespace + '. Add fewer at a time, or request this right.'",
    )
    checked = [_reference_check(number, kind) for number in range(MAX_NAMED)]
    return _policy(f"{kind.plural}.{POLICY_NAME}", variables, [*checked, many])


def _kept() -> str:
    """Whether what a reference `one` lends reaches no new item, in CEL. That of an item itself is of its own files."""
    own = f"one.split(' ')[1] in {list(sourced_lists())}"
    narrow = " ".join(
        f"one.split(' ')[1] == '{field}' ? !variables.newItems.exists(one, {reaches}) :"
        for field, reaches in _REACHES.items()
    )
    return f"{own} ? true : {narrow} variables.newItems.size() == 0"


def _reference_check(number: int, kind: Kind) -> Validation:
    reference = f"variables.references[{number}].split(' ')"
    _, *on_object = rights_on(kind, "")
    allowed = " || ".join(_authorizer(right, f"{reference}[0]") for right in on_object)
    verbs = " or ".join(right.verb for right in on_object)
    message = (
        f"'spec.' + {reference}[1] + ': the {kind.name} ' + {reference}[0] + ' requires the right to create pods, or"
        f" the verb {verbs} on it, in namespace ' + request.namespace + '. Use another one, or request one of these"
        " rights.'"
    )
    return Validation(f"variables.references.size() <= {number} || variables.{_PODS} || {allowed}", message)
