"""The key that engines ask of their routers: which engines ask for it, and which routers send it.

1. With `spec.router.keys` or `spec.disaggregation` a new pod template of engines asks for it, if all routers of now
   send it. Engines of which some compute prompts work together only with the key: their answers hold what others read.
2. A template in use stays as it is: neither an upgrade nor `spec.router.keys` restarts an engine.
3. Routers send the key as long as an engine asks for it, also without `spec.router.keys`.
4. With `External` clients would need it too. So engines are replaced first, and the Service selects them after that.
"""

from collections.abc import Sequence

from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.engines.base import Engine
from inference_operator.objects.engine_key import asked_key, key_secret, key_secret_name
from inference_operator.objects.names import ROUTER, is_role
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.part import Feature, Part
from inference_operator.roles.context import RoleContext
from inference_operator.sentences import sentences
from inference_operator.settings import Settings
from inference_operator.views.pod import has_answered
from inference_operator.workload.pinned_template import ENGINE_PIN, PinnedTemplate


def is_wanted(spec: Spec, engine: Engine, settings: Settings) -> bool:
    has_keys = spec.needs_engine_key and spec.router.strategy is not RouterStrategy.EXTERNAL
    return has_keys and settings.engine_keys and engine.can_ask_for_key


def key_to_ask_for(inputs: Inputs, context: RoleContext, inputs_hash: str, *, open_to_all: bool) -> str:
    """Name of the Secret with the key that a pod template of now asks for; empty: it asks for none.

    None is asked for where something else than the routers may send requests (`open_to_all`).
    """
    if open_to_all or not is_wanted(context.spec.stated, context.engine, inputs.settings):
        return ""
    pinned = ENGINE_PIN.read(context.live.workload)
    if pinned and pinned.inputs_hash == inputs_hash and context.live.engines:
        return asked_key(pinned.content.template)
    return key_secret_name(inputs.owner) if routers_send_key(inputs) else ""


def must_stop_asking(context: RoleContext) -> bool:
    """Whether the template in use asks for a key that clients of another router do not have."""
    pinned = ENGINE_PIN.read(context.live.workload)
    is_external = context.spec.stated.router.strategy is RouterStrategy.EXTERNAL
    return is_external and pinned is not None and bool(asked_key(pinned.content.template))


def routers_send_key(inputs: Inputs) -> bool:
    """Whether each router that could send a request to an engine sends the key with it; also if there is none."""
    pods = inputs.pods_of(ROUTER)
    return all(pod.engine_key for pod in pods if has_answered(pod) or pod.terminating)


def engines_ask(inputs: Inputs) -> str:
    pods = (pod for pod in inputs.pods if is_role(pod.component) and not (pod.terminating or pod.failed))
    return next((pod.engine_key for pod in pods if pod.engine_key), "")


def key_to_send(inputs: Inputs, spec: Spec, templates: Sequence[PinnedTemplate], engines: Sequence[Engine]) -> str:
    asked = [name for template in templates if (name := asked_key(template.content.template))]
    asks = next(iter([*asked, engines_ask(inputs)]))
    if asks:
        return asks
    return key_secret_name(inputs.owner) if any(is_wanted(spec, engine, inputs.settings) for engine in engines) else ""


def created_key(inputs: Inputs, templates: Sequence[PinnedTemplate], sent: str, *, is_held: bool) -> Part:
    """The Secret, if pods of these templates or routers name it; one of another name is not the operator's to create.

    With `settings.engineKeys: false` the operator has no right to create it. While `is_held`, nothing is made.
    """
    named = {sent, *(asked_key(template.content.template) for template in templates)}
    is_due = inputs.settings.engine_keys and key_secret_name(inputs.owner) in named
    return Part(feature=Feature.ENGINE_KEY, engine_key=key_secret(inputs.owner) if is_due and not is_held else None)


def unguarded(inputs: Inputs, context: RoleContext, template: PinnedTemplate, *, has_policy: bool) -> str:
    """A notice if somebody could ask these engines without an API key; empty if not."""
    spec, engine = context.spec.stated, context.engine
    asks = asked_key(template.content.template) and all(
        pod.engine_key for engine in context.live.engines for pod in engine.pods
    )
    if spec.router.keys is None or asks:
        return ""
    can_ask = is_wanted(spec, engine, inputs.settings)
    kept = (
        "Only a NetworkPolicy keeps other pods from engines, which take requests without a key. `infd doctor` tells"
        " whether the network enforces it."
        if has_policy
        else "Nothing keeps other pods from engines, which take requests without a key."
    )
    key = context.owner.key
    first = "" if routers_send_key(inputs) else f"run `infd renew --routers -n {key.namespace} {key.name}`, then "
    cure = f"To close that, {first}restart the engines (`infd restart`)." if can_ask else ""
    why = "" if engine.can_ask_for_key else "This kind of engine cannot ask for one."
    return sentences(kept, why, cure)
