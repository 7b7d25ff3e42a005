"""The pod template of a role's engines: as this release builds it, and the one in use.

1. The process, and the template built from it, both over the administrator's defaults of engine pods.
2. The template in use is the pinned one while it serves.
3. In the owner's window it is the one of this release (`role_templates`).
"""

import math
from dataclasses import dataclass, replace

from inference_operator.api.container import Environment
from inference_operator.api.effective_spec import EffectiveSpec
from inference_operator.api.hardware import Device
from inference_operator.api.reasons import Reason
from inference_operator.api.spec import Spec
from inference_operator.engines.environment import with_defaults
from inference_operator.engines.group.network import INTERFACE_VARIABLES, UCX_DEVICES, network_variables
from inference_operator.engines.kv_transfer import KVTransfer
from inference_operator.engines.process import EngineProcess, Front, ServedModel, Timeouts
from inference_operator.fleet.rollout_slots import recorded_turn
from inference_operator.models.source import HubModel, stored_name
from inference_operator.objects.cache_volume import HUB_CACHE, snapshot_path
from inference_operator.objects.child import content_hash
from inference_operator.objects.names import router_name, service_host
from inference_operator.objects.pinned import Pinned, PinUse
from inference_operator.objects.volumes import model_argument
from inference_operator.pipeline.engine_key import key_to_ask_for, must_stop_asking
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_claim import cache_volume
from inference_operator.pipeline.renewal import is_renewed_at, renewal_notice
from inference_operator.pipeline.turn_inputs import turn_inputs
from inference_operator.planning.engine_plan import older_image
from inference_operator.roles.context import RoleContext
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.router.process import PREFILL_PORT
from inference_operator.sentences import sentences
from inference_operator.settings import Settings
from inference_operator.sizing.disaggregation import least_prompt
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.shape import Objective
from inference_operator.workload.pinned_template import ENGINE_PIN, EngineContent, PinnedTemplate, template_inputs_hash
from inference_operator.workload.pod_spec import WorkloadInputs, engine_template

BYTES_PER_SECOND = 60_000_000
"""Download rate assumed for weights from a hub or a volume. It is pessimistic: half of the default throughput of an AWS
gp3 volume, 125 MiB/s (Amazon EBS User Guide, "General Purpose SSD volumes")."""
PREPARATION_SECONDS = 600
"""Time for everything except fetching weights: processes, compilation, CUDA graphs, warm-up. vLLM allows its engine as
much for the whole start by default (0.32.0, vllm/envs.py, VLLM_ENGINE_READY_TIMEOUT_S)."""
LEAST_SECONDS = 1800
"""Shortest timeout. A failing start exits and a hanging one is rare, so a timeout below 30 minutes has no benefit."""


@dataclass(frozen=True, slots=True)
class RoleTemplates:
    inputs: WorkloadInputs
    built: PinnedTemplate
    template: PinnedTemplate
    use: PinUse

    @property
    def older(self) -> str:
        """Sentences about what is older in use than this release would make it; empty if nothing is."""
        older = sentences(self._older_image, self._older_template)
        context, key = self.inputs.context, self.inputs.context.owner.key
        cure = f"To renew engines one by one, run `infd renew --engines -n {key.namespace} {key.name}`."
        return sentences(older, cure, renewal_notice(context.settings, context.now)) if older else ""

    @property
    def outdated(self) -> Reason | None:
        """Why a renewal would change engines; None if they are as this release builds them."""
        if self._older_image and self.inputs.context.engine.advisories(self.inputs.plan.image):
            return Reason.ENGINES_VULNERABLE
        return Reason.ENGINES_OUTDATED if self._older_image or self._older_template else None

    @property
    def _older_image(self) -> str:
        context = self.inputs.context
        return older_image(self.inputs.plan.image, context.spec.stated, context.engine, context.settings)

    @property
    def _older_template(self) -> str:
        return "" if self.template == self.built else _OLDER_TEMPLATE


_OLDER_TEMPLATE = "Engines keep their current pod template. This release, or its settings, would build another one."


def role_templates(inputs: Inputs, context: RoleContext, plan: PinnedPlan, *, open_to_all: bool) -> RoleTemplates:
    """In the owner's window: image and template of this release, as soon as the brake lets them begin.

    1. A renewal begins in the window, and only where nothing else is under way: an edit of the user stays the user's.
    2. One that has begun ends, and follows the owner's settings, also after the window.
    3. Sizes stay, since nodes that come and go would change them from one look to the next.
    4. An image that cannot run the specification renews nothing. Neither is a group renewed that nobody needs now.
    """
    used = _templates(inputs, context, plan, open_to_all=open_to_all)
    live, stated, settings = context.live, context.spec.stated, context.settings
    pinned = ENGINE_PIN.read(live.workload)
    is_at_rest = pinned is not None and pinned.inputs_hash == used.built.inputs_hash and not live.view.rolling
    begins = is_at_rest and is_renewed_at(settings, context.now)
    is_idle_group = used.inputs.plan.plan.parallel.nodes > 1 and not live.engines
    if is_idle_group or not (begins or recorded_turn(live.workload)):
        return used
    image = context.engine.desired_image(stated, settings)
    if context.engine.check(stated.engine, image=image, settings=settings):
        return used
    latest = _templates(inputs, context, replace(used.inputs.plan, image=image), open_to_all=open_to_all)
    if latest.built.template_hash == used.template.template_hash:
        return used
    if not turn_inputs(inputs).may_begin:
        return replace(used, use=PinUse.HELD)
    return replace(latest, template=latest.built, use=PinUse.SETTINGS)


def _templates(inputs: Inputs, context: RoleContext, plan: PinnedPlan, *, open_to_all: bool) -> RoleTemplates:
    """The templates of a plan: what serves keeps the one that it has.

    Prompts and answers are computed apart only once routers send the key: until then engines do both.
    """
    live, stated, transfer = context.live, context.spec.stated, context.spec.transfer
    inputs_hash = template_inputs_hash(stated, plan, transfer)
    key = key_to_ask_for(inputs, context, inputs_hash, open_to_all=open_to_all)
    if transfer and not key:
        transfer, inputs_hash = None, template_inputs_hash(stated, plan)
    process = _process(context, plan, transfer and _of_plan(context, transfer, plan), asks_for_key=bool(key))
    workload_inputs = WorkloadInputs(context, plan, process, cache_volume(inputs, context.spec.stated, plan), key)
    built = Pinned(inputs_hash, EngineContent(engine_template(workload_inputs)))
    serving = [] if must_stop_asking(context) else [engine.template for engine in live.engines if engine.has_answered]
    template, use = ENGINE_PIN.use(built, live.workload, serving)
    return RoleTemplates(workload_inputs, built, template, use)


def _of_plan(context: RoleContext, transfer: KVTransfer, plan: PinnedPlan) -> KVTransfer:
    """The transfer between engines of this plan and others of the same image and commit.

    Where no commit of the hub is known, engines that start at different times may load different ones: they never meet.
    """
    key, domain = context.owner.key, context.settings.cluster_domain
    host = service_host(router_name(key.name), key.namespace, cluster_domain=domain)
    decodes, apart = not context.spec.computes_prompts, context.spec.stated.disaggregation
    commit = plan.commit or (transfer.role.name if isinstance(context.source, HubModel) else "")
    objective = Objective.requested(context.spec.stated.autoscaling)
    return replace(
        transfer,
        revision=content_hash([transfer.revision, plan.image, commit]),
        prefill_url=f"http://{host}:{PREFILL_PORT}" if decodes else "",
        min_prompt_tokens=least_prompt(plan.plan, apart, objective) if decodes and apart else 0,
    )


def _process(
    context: RoleContext, plan: PinnedPlan, transfer: KVTransfer | None, *, asks_for_key: bool
) -> EngineProcess:
    spec, settings = context.spec.effective, context.settings
    model, name = spec.model, spec.model.served_name or context.owner.key.name
    hub_cache = HUB_CACHE if spec.stated.cache else ""
    commit, revision = (plan.commit, model.revision) if isinstance(context.source, HubModel) else ("", None)
    path = model_argument(context.source, plan.commit)
    folder = path
    if isinstance(context.source, HubModel):
        folder = _hub_folder(context.source, plan.commit) if hub_cache else ""
    served = ServedModel(path, name, commit, revision, model.token_secret_ref, folder, hub_cache)
    limits = timeouts(spec.stated, plan.plan, settings)
    running = spec.running_engine(plan.image, _with_network(spec, plan.plan, transfer))
    front = Front(settings.listen_address, settings.traces_endpoint, asks_for_key, transfer)
    return context.engine.process(running, plan.plan, served, limits, front)


def _with_network(spec: EffectiveSpec, plan: Plan, transfer: KVTransfer | None) -> Environment:
    """The variables of the engine, with those of the network between its pods.

    A variable of the user stays, and one of the administrator unless the user names the interface.
    """
    network, apart = spec.network, spec.stated.disaggregation if transfer else None
    if plan.parallel.nodes == 1:
        interface = apart.network.interface if apart and not apart.network.resource else None
        return with_defaults(spec.engine.env, {UCX_DEVICES: interface} if interface else {})
    replaced = INTERFACE_VARIABLES if spec.stated.hardware.network.interface else ()
    env = [variable for variable in spec.engine.env if variable.name not in replaced]
    on_gpus, has_devices = plan.device is Device.GPU, network.resource is not None
    return with_defaults(env, network_variables(network.interface, on_gpus=on_gpus, has_devices=has_devices))


def _hub_folder(source: HubModel, commit: str) -> str:
    """The folder on a claim with the files of a model of a hub; that of its file, if the source names one."""
    folder = source.file.rpartition("/")[0]
    return f"{snapshot_path(stored_name(source), commit)}{f'/{folder}' if folder else ''}"


def timeouts(spec: Spec, plan: Plan, settings: Settings) -> Timeouts:
    """The timeouts that the spec sets. The default startup timeout depends on the size of the checkpoint."""
    requested = spec.startup_timeout
    return Timeouts(
        startup=int(requested.total_seconds()) if requested else startup_seconds(plan.weight_bytes),
        dns_staleness=settings.dns_staleness_seconds,
        drain=int(spec.drain_timeout.total_seconds()),
    )


def startup_seconds(weight_bytes: int | None) -> int:
    """Seconds that an engine may take to become ready; the shortest timeout if the checkpoint's size is unknown."""
    if weight_bytes is None:
        return LEAST_SECONDS
    return max(LEAST_SECONDS, PREPARATION_SECONDS + math.ceil(weight_bytes / BYTES_PER_SECOND))
