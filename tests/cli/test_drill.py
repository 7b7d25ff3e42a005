"""`infd drill` before it begins: what it says, what it refuses, and reports that are judged again.

`e2e/test_drill.py` causes the faults; `tests/load/test_checker.py` has the checker.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from aiohttp import web

from inference_operator.admission.rights import Right
from inference_operator.api.resource import resource
from inference_operator.api.spec import Spec
from inference_operator.cli.drill import DRILLED
from inference_operator.cli.drill.command import INDENT, limits_of, rate_of
from inference_operator.cli.drill.faults import RESTARTED, RIGHTS, DrilledService, ObstacleError, Pods
from inference_operator.cli.drill.promises import Fault
from inference_operator.cli.options import SYSTEM_NAMESPACE
from inference_operator.cli.output import dumped
from inference_operator.cli.parser import RefusedError
from inference_operator.manifest import (
    CONFIG_MAP,
    DEPLOYMENT,
    INFERENCE_DEPLOYMENT,
    MODEL_GATEWAY,
    POD,
    STATEFUL_SET,
    Kind,
    Manifest,
    Ref,
)
from inference_operator.objects.adapter_list import ADVERTISED
from inference_operator.objects.names import ENGINE, GATEWAY, PREFILL
from inference_operator.views.engine import engines_of
from inference_operator.views.pod import pod_view
from tests.cli.conftest import Infd
from tests.cli.forwarding import Behind, behind_api_server
from tests.cli.test_chat import live, router
from tests.load.test_checker import CASES
from tests.testing.builders import inference_deployment, pod, ready_pod
from tests.testing.schemas import validate

SAMPLE = Path(__file__).parents[2] / "manifests" / "samples" / "jobs" / "drill.yaml"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.fixture
def behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    with behind_api_server(tmp_path, monkeypatch) as found:
        found.objects[REVIEWS] = {"status": {"allowed": True}}
        monkeypatch.setenv("COLUMNS", "120")  # lines are cut at the width of a terminal, which workers of xdist have
        for path in (DEPLOYMENT.path(None), DEPLOYMENT.path("default"), STATEFUL_SET.path("default")):
            found.objects[path] = {"metadata": {"resourceVersion": "1"}, "items": []}
        yield found


def engine(name: str) -> dict[str, object]:
    return pod(name=f"qwen-engine-{name}", status=ready_pod())


def prefill(name: str) -> Manifest:
    return pod(name=f"qwen-prefill-{name}", component=PREFILL, status=ready_pod())


def test_only_faults_that_the_caller_may_cause_are_caused(infd: Infd, behind: Behind) -> None:
    behind.serve(live(ready=2, replicas=2), router("a"), router("b"), engine("a"), engine("b"))
    behind.objects[REVIEWS] = {"status": {"allowed": False}}
    status, said, complaints = infd("drill", "qwen", "--yes")
    assert (status, complaints) == (1, "There is no fault that may be caused.\n")
    for part in (
        "Drill of default/qwen (2 engines, 2 routers), seed ",
        "not delete-engine: you have no right to delete pods in the namespace `default`.",
        "not drain-node: you have no right to create pods/eviction in the namespace `default`.",
        "not end-operator: you have no right to list pods in the namespace `inference-operator-system`.",
        "not to-zero: requests wait until an engine has started. --yes-interrupt causes it.",
    ):
        assert part in said.replace(f"\n{INDENT}", " ")
    assert behind.requests == []


def test_a_service_of_one_engine_and_one_router_is_not_interrupted(infd: Infd, behind: Behind) -> None:
    """Engines that compute prompts for it keep no service up."""
    behind.serve(live(), router("a"), engine("a"), prefill("a"), prefill("b"))
    others = ",".join(fault for fault in DRILLED if fault not in {Fault.END_OPERATOR, Fault.ROLL_GATEWAY})
    status, said, _ = infd("drill", "qwen", "--yes", f"--faults={others}")
    assert status == 1
    lines = said.replace(f"\n{INDENT}", " ").splitlines()
    why = dict(line.strip().removeprefix("not ").split(": ", 1) for line in lines if "  not " in line)
    one_engine = "it interrupts a service of one engine. --yes-interrupt causes it."
    one_router = "it interrupts a service of one router. --yes-interrupt causes it."
    assert why == {
        "roll-engines": one_engine,
        "delete-engine": one_engine,
        "roll-routers": one_router,
        "delete-router": one_router,
        "drain-node": "a budget keeps the only one until its node is cordoned, and the drill cordons no node.",
        "scale-down": "it needs two engines.",
        "to-zero": "requests wait until an engine has started. --yes-interrupt causes it.",
    }


def test_what_is_lost_where_nobody_asks_for_it_is_refused_first(infd: Infd, behind: Behind) -> None:
    behind.serve(live(), router("a"), engine("a"))
    status, _, complaints = infd("drill", "qwen")
    assert (status, "Add --yes" in complaints) == (2, True)
    behind.serve(live(ready=0), router("a"))
    status, _, complaints = infd("drill", "qwen", "--yes")
    assert (status, "qwen has no ready engine" in complaints) == (1, True)
    behind.serve({**live(), "spec": {**live()["spec"], "paused": True}}, router("a"), engine("a"))
    status, said, _ = infd("drill", "qwen", "--yes", "--faults=roll-engines")
    assert (status, "not roll-engines: the operator changes nothing while" in said) == (1, True)


def test_options_that_mean_nothing_are_refused(infd: Infd) -> None:
    wrong = ("--for=0s", "--for=3d", "--for=x", "--rate=0", "--rate=1000", "--faults=kill-engine", "--faults=")
    assert [infd("drill", "qwen", option)[0] for option in wrong] == [2] * len(wrong)


def test_the_load_is_below_what_one_engine_carries() -> None:
    assert [rate_of(None, carried) for carried in (None, 100.0, 1.0)] == [2.0, 2.0, 0.5]
    assert rate_of(3.0, 3.5) == 3.0
    with pytest.raises(RefusedError, match="would overload one engine"):
        rate_of(3.0, 2.5)


async def test_a_fault_that_would_interrupt_when_its_turn_comes_is_not_caused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Autoscaling may have removed engines since the drill began."""
    views = [pod_view(engine("a"), component=ENGINE), pod_view(prefill("a"), component=PREFILL)]
    one_engine = Pods(engines_of(views), [])

    async def pods(_: DrilledService) -> Pods:
        return one_engine

    async def live_now(*_: object) -> Manifest:
        return live()

    monkeypatch.setattr(DrilledService, "pods", pods)
    monkeypatch.setattr("inference_operator.cli.drill.faults.live_of", live_now)
    nothing: Any = None
    service = DrilledService(nothing, Ref(POD, "default", "qwen"), nothing, limit_seconds=1.0)
    assert (len(one_engine.serving), len(one_engine.engines)) == (1, 2)
    for fault in (Fault.DELETE_ENGINE, Fault.SCALE_DOWN, Fault.ROLL_ENGINES, Fault.TO_ZERO):
        with pytest.raises(ObstacleError):
            await service.cause(fault)


def before(behind: Behind, *pods: Manifest, answers: str) -> None:
    """A gateway whose list has the model's name."""
    meta = {"name": "models", "namespace": "default", "uid": "u", "generation": 1}
    gateway = {"apiVersion": MODEL_GATEWAY.api_version, "kind": MODEL_GATEWAY.name, "metadata": meta, "spec": {}}
    listed = {"metadata": {"resourceVersion": "1"}, "items": [gateway]}
    behind.objects[MODEL_GATEWAY.path("default")] = listed
    behind.objects[Ref(CONFIG_MAP, "default", "models-models").path] = {"data": {ADVERTISED: f"qwen {answers}\n"}}
    behind.serve(live(ready=2, replicas=2), router("a"), router("b"), engine("a"), engine("b"), *pods)


async def refused(_: web.Request) -> web.Response:
    return web.json_response({}, status=503)


def gateway_pod(name: str) -> Manifest:
    return pod(name=f"models-gateway-{name}", component=GATEWAY, status=ready_pod())


Gateway = tuple[Sequence[Manifest], str]
OWN = "10.0.0.7|80|qwen"
TWO = (gateway_pod("a"), gateway_pod("b"))
NO_GATEWAY = "not roll-gateway: no ModelGateway sends all requests for `qwen` to qwen."


@pytest.mark.parametrize(
    ("gateway", "options", "said"),
    [
        ((TWO, OWN), (), "through the API server to the gateway models, beside real traffic"),
        ((TWO, OWN), ("--faults=scale-down",), "through the API server to its own address, beside"),
        ((TWO, OWN), ("--url=http://x", "--faults=roll-gateway"), "to http://x, which is to be the gateway models"),
        ((TWO, OWN), ("--url=http://x",), "not roll-gateway: --url may lead past it."),
        ((TWO[:1], OWN), (), "not roll-gateway: it interrupts a gateway of one pod."),
        ((TWO[:1], OWN), ("--yes-interrupt",), "roll-gateway: A gateway is rolled; may be lost: only"),
        (((), OWN), (), "not roll-gateway: no pod of the gateway is ready."),
        ((TWO, "10.0.0.8|80|other"), (), NO_GATEWAY),
        ((TWO, f"*1|{OWN};1|10.0.0.8|80|next"), (), NO_GATEWAY),
    ],
)
def test_a_gateway_before_the_service_is_rolled_and_has_the_load(
    infd: Infd, behind: Behind, gateway: Gateway, options: Sequence[str], said: str
) -> None:
    pods, answers = gateway
    before(behind, *pods, answers=answers)
    behind.answer = refused  # what is said comes before the first request
    _, shown, _ = infd("drill", "qwen", "--yes", *options)
    assert said in shown.replace(f"\n{INDENT}", " ")


def test_what_hides_a_gateway_is_said(infd: Infd, behind: Behind) -> None:
    behind.objects[REVIEWS] = {"status": {"allowed": False}}
    before(behind, *TWO, answers=OWN)
    not_rolled = {
        MODEL_GATEWAY.path(
            "default"
        ): "you need the rights to list modelgateways and to get configmaps in the namespace",
        "": "you have no right to get deployments.apps in the namespace",
    }
    for forbidden, why in not_rolled.items():
        behind.forbidden = {forbidden}
        assert f"not roll-gateway: {why}" in infd("drill", "qwen", "--yes")[1].replace(f"\n{INDENT}", " ")
    del behind.objects[MODEL_GATEWAY.path("default")]
    assert "not roll-gateway: this cluster has no ModelGateways." in infd("drill", "qwen", "--yes")[1]


async def test_a_gateway_is_rolled_as_kubectl_restarts_its_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it has healed when as many new pods are ready."""
    old, new = ([pod_view(one, component=GATEWAY) for one in pods] for pods in (TWO, [gateway_pod("c")]))
    views = [pod_view(one, component=ENGINE) for one in (engine("a"), engine("b"))]
    looks = iter([old, [*old, *new], new, new, [*new, *new]])
    asked: list[tuple[str, Manifest]] = []

    async def pods(_: DrilledService) -> Pods:
        return Pods(engines_of(views), [], next(looks))

    async def live_now(_: object, namespace: str, name: str, kind: Kind = INFERENCE_DEPLOYMENT) -> Manifest:
        meta = {"namespace": namespace, "name": name, "uid": "u"}
        return (
            live() if kind == INFERENCE_DEPLOYMENT else {"apiVersion": "apps/v1", "kind": kind.name, "metadata": meta}
        )

    async def request(_: str, path: str, *__: object, body: Manifest, **___: object) -> Manifest:
        asked.append((path, body))
        return body

    monkeypatch.setattr(DrilledService, "pods", pods)
    monkeypatch.setattr("inference_operator.cli.drill.faults.live_of", live_now)
    monkeypatch.setattr("inference_operator.cli.drill.faults.POLL_SECONDS", 0)
    api: Any = SimpleNamespace(request=request, clock=SimpleNamespace(now=lambda: datetime(2026, 1, 1, tzinfo=UTC)))
    nothing: Any = None
    cluster: Any = SimpleNamespace(api=api)
    service = DrilledService(cluster, Ref(POD, "default", "qwen"), nothing, limit_seconds=1.0, gateway="models")
    assert await service.cause(Fault.ROLL_GATEWAY) == "2 pods of models were replaced"
    [(path, body)] = asked
    assert path == Ref(DEPLOYMENT, "default", "models-gateway").path
    assert body["spec"] == {"template": {"metadata": {"annotations": {RESTARTED: "2026-01-01T00:00:00+00:00"}}}}
    assert next(looks, None) is None


def test_a_report_is_judged_again(infd: Infd, tmp_path: Path) -> None:
    for name, expected in (("all is well", 0), ("a broken stream during a rollout", 1)):
        (tmp_path / "drill.json").write_text(dumped(CASES[name][0], "json"))
        status, said, _ = infd("drill", "--judge", str(tmp_path / "drill.json"))
        assert (status, said.splitlines()[-1].startswith("As promised")) == (expected, not expected)
    assert infd("drill", "--judge", str(tmp_path / "none.json"))[0] == 2


def test_every_fault_of_the_command_names_its_rights() -> None:
    assert set(RIGHTS) == set(DRILLED)


def test_limits_are_those_of_the_specification() -> None:
    spec = resource(inference_deployment(drainTimeout="90s", router={"coldStart": {"timeout": "15m"}})).spec
    assert isinstance(spec, Spec)
    assert asdict(limits_of(spec)) == {"drain": 90.0, "hold": 300.0}


def test_the_role_of_the_sample_has_the_rights_of_every_fault_and_no_other_writes() -> None:
    documents = [one for one in yaml.safe_load_all(SAMPLE.read_text()) if one["kind"] == "Role"]
    granted = {
        role["metadata"]["namespace"]: {
            Right(verb, plural, group)
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for plural in rule["resources"]
            for verb in rule["verbs"]
        }
        for role in documents
    }
    system = set(RIGHTS[Fault.END_OPERATOR])
    own = {right for fault, rights in RIGHTS.items() if fault is not Fault.END_OPERATOR for right in rights}
    assert granted[SYSTEM_NAMESPACE] == system
    assert own <= granted["default"]
    assert all(right.verb in {"get", "list"} for right in granted["default"] - own)


def test_the_sample_is_valid() -> None:
    for manifest in yaml.safe_load_all(SAMPLE.read_text()):
        validate(manifest)
