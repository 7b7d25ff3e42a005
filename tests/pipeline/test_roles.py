"""A second engine and a second role work without a change of the operator."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.spec import Spec
from inference_operator.api.status import StartupStep
from inference_operator.cli.main import main
from inference_operator.controller.cache import Cache
from inference_operator.controller.sample_store import SampleStore
from inference_operator.engines.registry import ENGINES as RELEASED
from inference_operator.engines.registry import VLLM, EngineRegistry
from inference_operator.manifest import DEPLOYMENT, SERVICE, Manifest, Ref
from inference_operator.objects.names import ENGINE, ROUTER
from inference_operator.pipeline.contexts import live_roles, role_specs
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.roles.context import LiveRole
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.roles.spec import RoleSpec, role_spec
from inference_operator.scrape.scraper import Callbacks, Scraper, Targets
from inference_operator.settings import Settings
from inference_operator.status.report import Report, report
from inference_operator.views.engine import EngineView
from inference_operator.views.lookups import LogLookup, LogText
from inference_operator.views.pod import pod_view
from tests.scrape.pods import answering
from tests.testing.builders import (
    CONFIG,
    ENGINES,
    KEY,
    SETTINGS,
    deployment_status,
    inference_deployment,
    inputs,
    pod,
    ready_pod,
)
from tests.testing.second_engine import (
    BOTH,
    ECHO,
    HELPER,
    HELPER_IMAGE,
    HELPER_REPLICAS,
    HELPER_TENSOR,
    MAX_CONCURRENCY,
    PORT,
    REGISTRY,
    USER,
    two_roles,
)

META = pod()["metadata"]
SAMPLE = Path(__file__).parents[2] / "manifests" / "samples" / "quickstart.yaml"
HELPERS = Ref(DEPLOYMENT, KEY.namespace, "qwen-helper")
STARTING: Manifest = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "True"}],
    "containerStatuses": [{"name": ENGINE, "started": False, "restartCount": 0, "state": {"running": {}}}],
}
CRASHED: Manifest = {
    **STARTING,
    "containerStatuses": [
        {
            "name": ENGINE,
            "restartCount": 1,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "message": "it faded"}},
        }
    ],
}


def by_the_second_engine(raw: Manifest | None = None) -> Inputs:
    return replace(inputs(raw or inference_deployment()), engines=REGISTRY)


def planned(given: Inputs) -> Planned:
    result = outcome(given)
    assert isinstance(result, Planned), result
    return result


def with_live(given: Inputs, *pods: Manifest) -> Inputs:
    """The same with the desired objects as live ones, and pods of the current template."""
    made = planned(given).desired
    live = {ref: {**one, "status": deployment_status(1, ready=0)} for ref, one in made.items()}
    views = [pod_view(one, component=one["metadata"]["labels"]["app.kubernetes.io/component"]) for one in pods]
    return replace(given, children=live, pods=tuple(views))


def test_command_user_port_and_concurrency_come_from_the_second_engine() -> None:
    made = planned(by_the_second_engine()).desired
    template = made[ENGINES]["spec"]["template"]["spec"]
    (container,) = template["containers"]
    assert (container["command"], container["ports"][0]["containerPort"]) == (["echo-server"], PORT)
    assert (container["readinessProbe"]["httpGet"]["path"], template["securityContext"]["runAsUser"]) == (
        "/alive",
        USER,
    )
    config = made[CONFIG]["data"]["haproxy.cfg"]
    assert f"qwen-engines.default.svc.cluster.local:{PORT}" in config
    assert "http-check send meth GET uri /alive ver" in config
    assert f"maxconn {MAX_CONCURRENCY} observe" in config


def test_the_pinned_plan_contains_the_name_of_its_engine() -> None:
    made = planned(by_the_second_engine()).desired
    assert json.loads(made[ENGINES]["metadata"]["annotations"][PLAN_ANNOTATION.key])["engine"] == ECHO


def test_a_pinned_plan_of_an_engine_that_is_no_longer_requested_is_replaced() -> None:
    before = planned(inputs(inference_deployment()))
    given = replace(by_the_second_engine(), children=before.desired)

    def by_echo(stated: Spec, settings: Settings, _engines: EngineRegistry) -> Sequence[RoleSpec]:
        return (role_spec(ENGINE, ECHO, stated, settings),)

    assert (before.plan.engine, planned(replace(given, roles=by_echo)).plan.engine) == (VLLM, ECHO)
    assert planned(given).plan.engine == VLLM, "the operator chose it, and the specification is the same"


def test_a_pinned_plan_of_an_engine_unknown_to_this_release_is_replaced() -> None:
    made = planned(by_the_second_engine()).desired
    given = inputs(inference_deployment(), children=made.values())
    assert planned(given).plan.engine == VLLM
    assert _live(given).engine is RELEASED[VLLM]


def test_after_a_refused_edit_logs_are_read_by_the_engine_of_the_pinned_plan() -> None:
    given = with_live(by_the_second_engine(), pod(status=CRASHED))
    released = EngineRegistry({**REGISTRY.by_name}, default=VLLM)
    resource = inputs(inference_deployment(source="gs://bucket")).resource
    edited = replace(given, engines=released, resource=resource)
    assert isinstance(outcome(edited), Refused)
    assert _live(edited).engine is REGISTRY[ECHO]


def test_status_reads_logs_and_termination_messages_by_the_second_engine() -> None:
    log = LogLookup("default", "qwen-engine-7c9f-abcde", "pod-qwen-engine-7c9f-abcde", ENGINE, 0, False, True)  # noqa: FBT003
    starting = with_live(by_the_second_engine(), pod(status=STARTING))
    later = replace(starting, now=starting.now.replace(year=2027), lookups={log: LogText("listening")})
    assert " loads the weights." in _summary(later)
    crashed = with_live(by_the_second_engine(), pod(status=CRASHED))
    assert "the echo faded" in _summary(crashed)
    assert _report(crashed).status.conditions[0].reason == Reason.GPU_OUT_OF_MEMORY


def test_during_a_rollout_to_another_kind_each_pod_is_read_as_its_own_engine() -> None:
    given = by_the_second_engine()
    cache = Cache(SETTINGS, REGISTRY)
    for manifest in planned(given).desired.values():
        cache.put({**manifest, "metadata": {**manifest["metadata"], "resourceVersion": "1"}})
    template = planned(given).desired[ENGINES]["spec"]["template"]["metadata"]
    old, new = (pod_view({**pod(), **more}, component=ENGINE) for more in ({}, {"metadata": {**META, **template}}))
    assert (cache.engine_of(KEY, old), cache.engine_of(KEY, new)) == (REGISTRY[VLLM], REGISTRY[ECHO])


async def test_the_scraper_reads_the_metrics_of_the_second_engine() -> None:
    given = by_the_second_engine()
    cache = Cache(SETTINGS, REGISTRY)
    for manifest in planned(given).desired.values():
        cache.put({**manifest, "metadata": {**manifest["metadata"], "resourceVersion": "1"}})
    assert (cache.engine(KEY, ENGINE), cache.engine(KEY, ROUTER)) == (REGISTRY[ECHO], None)
    async with answering("echoes 3\n") as server:
        view = pod_view(pod(), component=ENGINE)
        view = replace(view, ready=True, address="127.0.0.1", ports={"http": server.port}, engine=ECHO)
        store = SampleStore()
        nothing = Callbacks(
            on_stalled=lambda _: None,
            on_no_progress=lambda _: None,
            on_stall=lambda _: None,
            on_scrape=lambda _component, *, answered: None,  # noqa: ARG005
            on_room=lambda _: None,
            on_readable=lambda _: None,
            on_scaling=lambda _: None,
            on_adapters=lambda _: None,
        )
        scraper = Scraper(
            Targets(lambda: [KEY], lambda _: [view], lambda _: [EngineView(view)], cache.engine_of),
            store,
            nothing,
            SETTINGS,
        )
        await scraper.scrape(KEY)
        await scraper.close()
    assert store.of([view]).engines[view.uid].sample.running == 3


def test_infd_plan_sizes_for_the_second_engine(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["render", "--filename", str(SAMPLE), "--gpu", "H100"], REGISTRY)
    assert ended.value.code == 0
    assert "echo-server" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--filename", str(SAMPLE), "--gpu", "H100"], REGISTRY)
    assert ended.value.code == 0


def test_each_of_two_roles_has_its_own_engine_image_sizes_and_number() -> None:
    made = planned(replace(inputs(inference_deployment(replicas=2)), engines=BOTH, roles=two_roles)).desired
    found = {}
    for ref in (ENGINES, HELPERS):
        deployment = made[ref]["spec"]
        (container,) = deployment["template"]["spec"]["containers"]
        gpus = container["resources"]["limits"]["nvidia.com/gpu"]
        found[ref] = (container["image"], deployment["replicas"], gpus, container["ports"][0]["containerPort"])
    assert found == {
        ENGINES: (SETTINGS.gpu_engine_image, 2, "1", 8000),
        HELPERS: (HELPER_IMAGE, HELPER_REPLICAS, str(HELPER_TENSOR), PORT),
    }


def test_an_edit_of_one_role_decides_the_other_role_not_again() -> None:
    """The hash of a plan is that of its role's own specification."""
    given = with_live(replace(inputs(inference_deployment(), settings=SETTINGS), engines=BOTH, roles=two_roles))

    def other_image(stated: Spec, settings: Settings, engines: EngineRegistry) -> Sequence[RoleSpec]:
        first, helper = two_roles(stated, settings, engines)
        engine = helper.stated.engine.model_copy(update={"image": "registry.example/echo:2"})
        return (first, role_spec(HELPER, ECHO, helper.stated.model_copy(update={"engine": engine}), settings))

    edited = planned(replace(given, roles=other_image)).desired
    annotations = {ref: edited[ref]["metadata"]["annotations"][PLAN_ANNOTATION.key] for ref in (ENGINES, HELPERS)}
    before = {ref: given.children[ref]["metadata"]["annotations"][PLAN_ANNOTATION.key] for ref in (ENGINES, HELPERS)}
    assert annotations[ENGINES] == before[ENGINES]
    assert json.loads(annotations[HELPERS])["image"] == "registry.example/echo:2"


def test_two_roles_give_two_deployments_and_one_router_with_two_upstreams() -> None:
    given = replace(inputs(inference_deployment()), engines=BOTH, roles=two_roles)
    result = planned(given)
    assert [(role.name, role.plan.engine) for role in result.roles] == [(ENGINE, VLLM), (HELPER, ECHO)]
    assert {ENGINES, HELPERS, Ref(SERVICE, "default", "qwen-engines"), Ref(SERVICE, "default", "qwen-helpers")} <= (
        result.desired.keys()
    )
    (container,) = result.desired[HELPERS]["spec"]["template"]["spec"]["containers"]
    assert (container["name"], container["command"]) == (HELPER, ["echo-server"])
    selector = result.desired[HELPERS]["spec"]["selector"]["matchLabels"]
    assert selector["app.kubernetes.io/component"] == HELPER
    config = result.desired[CONFIG]["data"]["haproxy.cfg"]
    assert "server-template engine_ 32 qwen-engines.default.svc.cluster.local:8000 weight 64 maxconn 1024 " in config
    assert f"helper_ 32 qwen-helpers.default.svc.cluster.local:{PORT} weight 64 maxconn {MAX_CONCURRENCY} " in config


def test_the_status_counts_engines_of_two_roles_and_is_ready_only_with_both() -> None:
    given = with_live(replace(inputs(inference_deployment()), engines=BOTH, roles=two_roles))
    routers = Ref(DEPLOYMENT, "default", "qwen-router")

    def with_ready(**ready: int) -> Inputs:
        status = {name: deployment_status(1, ready=ready.get(name, 0)) for name in ("engines", "helpers")}
        live = {
            **given.children,
            ENGINES: {**given.children[ENGINES], "status": status["engines"]},
            HELPERS: {**given.children[HELPERS], "status": status["helpers"]},
            routers: {**given.children[routers], "status": deployment_status(2)},
        }
        return replace(given, children=live)

    assert _report(with_ready(engines=1)).status.conditions[0].status == "False"
    both = _report(with_ready(engines=1, helpers=1)).status
    assert (both.conditions[0].status, both.ready, both.replicas, both.ready_replicas) == ("True", "2/4", 1, 1)


def test_status_reads_the_pods_of_each_role_by_its_engine_and_sizes_each_role() -> None:
    given = replace(inputs(inference_deployment()), engines=BOTH, roles=two_roles)
    crashed = with_live(given, pod(name="qwen-helper-a", component=HELPER, status=_of_helper(CRASHED)))
    assert "the echo faded" in _summary(crashed)
    status = _report(crashed).status
    assert status.conditions[0].reason == Reason.GPU_OUT_OF_MEMORY
    sized = status.condition(ConditionType.SIZED)
    assert sized is not None
    assert [name in sized.message for name in (f"Role `{ENGINE}`: ", f"Role `{HELPER}`: ")] == [True, True]


def test_status_reports_the_start_of_the_role_that_does_not_serve() -> None:
    given = replace(inputs(inference_deployment()), engines=BOTH, roles=two_roles)
    log = LogLookup("default", "qwen-helper-a", "pod-qwen-helper-a", HELPER, 0, False, True)  # noqa: FBT003
    helper = pod(name="qwen-helper-a", component=HELPER, status=_of_helper(STARTING))
    live = with_live(given, helper, pod(status=ready_pod()))
    serving = {**live.children[ENGINES], "status": deployment_status(1)}
    later = replace(
        live,
        children={**live.children, ENGINES: serving},
        now=live.now.replace(year=2027),
        lookups={log: LogText("listening")},
    )
    startup = _report(later).status.startup
    assert startup is not None
    assert (startup.pod, startup.step) == ("qwen-helper-a", StartupStep.LOADING_WEIGHTS)


def _of_helper(status: Manifest) -> Manifest:
    """The same status of a pod whose container is that of the helper."""
    return {**status, "containerStatuses": [{**one, "name": HELPER} for one in status["containerStatuses"]]}


def _live(given: Inputs) -> LiveRole:
    return live_roles(given, role_specs(given))[ENGINE]


def _report(given: Inputs) -> Report:
    return report(given, outcome(given), [])


def _summary(given: Inputs) -> str:
    return _report(given).status.message
