"""The key that engines ask of their routers: who asks, who sends, in which order, and what is said meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from inference_operator.engines.engine_key_program import USER_HEADER
from inference_operator.manifest import NETWORK_POLICY, Manifest, Ref
from inference_operator.objects.names import ENGINE, ROUTER
from inference_operator.objects.network_policy import metrics_readers
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.settings import Settings
from inference_operator.views.pod import PodView, pod_template_hash
from tests.testing.adapters import adapted, records
from tests.testing.builders import (
    CONFIG,
    ENGINES,
    NOW,
    ROUTERS,
    SERVICE_OF_ROUTERS,
    deployment_status,
    inference_deployment,
    inputs,
    model_known,
)

KEYS: Manifest = {"keys": {"secretRef": {"name": "users"}}}


def requested(**spec: Any) -> Manifest:  # noqa: ANN401 - JSON
    """A resource whose engines are replaced without a look at free GPUs."""
    return inference_deployment(rollout={"strategy": "Surge"}, **spec)


PLAIN, KEYED = requested(), requested(router=KEYS)
EXTERNAL = requested(router={"strategy": "External"})
SECRET = "qwen-engine-key-7a1c0f5e"  # noqa: S105 - a name
BEFORE = Settings(engine_keys=False)
"""A release that knows no keys of engines makes the same objects."""
SENT = "http-request set-header Authorization"
EDITED: Manifest = {"annotations": {"renewed": "1"}}

Objects = Mapping[Ref, Manifest]


def decided(
    raw: Manifest, children: Objects | None = None, pods: Sequence[PodView] = (), settings: Settings | None = None
) -> Planned:
    live = [
        {**one, "status": deployment_status(1)} if one["kind"] == "Deployment" else one
        for one in (children or {}).values()
    ]
    known = {Ref.of(one): one for one in [model_known(raw), *live]}
    found = outcome(inputs(raw, children=known.values(), pods=pods, settings=settings or Settings()))
    assert isinstance(found, Planned), found
    return found


def template(objects: Objects, ref: Ref = ENGINES) -> Manifest:
    found: Manifest = objects[ref]["spec"]["template"]
    return found


def named(objects: Objects, ref: Ref = ENGINES) -> str:
    """The Secret that a pod template names; empty without one."""
    return str(template(objects, ref)["metadata"]["annotations"].get("inference-operator.dev/engine-key", ""))


def serving(objects: Objects, *components: str) -> list[PodView]:
    """A pod that serves, of the template of each component."""
    return [_pod(objects, component) for component in components or (ENGINE, ROUTER)]


def _pod(objects: Objects, component: str) -> PodView:
    ref = ROUTERS if component == ROUTER else ENGINES
    name, made = f"qwen-{component}-a", template(objects, ref)["metadata"]
    view = PodView(name, component, NOW, ready=True, terminating=False, failed=False, problem=None, uid=name)
    return replace(view, template=pod_template_hash(made), engine_key=named(objects, ref))


def config(objects: Objects) -> str:
    return str(objects[CONFIG]["data"]["haproxy.cfg"])


# A new resource


def test_with_api_keys_engines_ask_for_a_key_that_routers_send() -> None:
    found = decided(KEYED)
    assert [named(found.desired, ref) for ref in (ENGINES, ROUTERS)] == [SECRET] * 2
    engine, router = template(found.desired)["spec"], template(found.desired, ROUTERS)["spec"]
    volume = {"name": "engine-key", "secret": {"secretName": SECRET, "items": [{"key": "key", "path": "key"}]}}
    assert volume in engine["volumes"]
    assert volume in router["volumes"]
    assert engine["containers"][0]["args"][-1] == "--middleware=inference_operator_engine_key.EngineKey"
    assert {"name": "engine-key", "mountPath": "/engine-key", "readOnly": True} in engine["containers"][0][
        "volumeMounts"
    ]
    mount = {"name": "engine-key", "mountPath": "/etc/haproxy-engine-key", "readOnly": True}
    assert [mount in one["volumeMounts"] for one in router["containers"]] == [True, True]


def test_routers_write_key_and_user_in_place_of_what_clients_send_after_they_have_checked_that() -> None:
    lines = config(decided(KEYED).desired).splitlines()
    user = f"http-request set-header {USER_HEADER.decode()}"
    rules = ("status 401", "del-header '^(?!(", "del-header Author", SENT, user)
    at = [next(n for n, line in enumerate(lines) if words in line) for words in rules]
    assert at == sorted(at)
    assert lines[at[3]].strip() == f'{SENT} "Bearer %[str(engine),map_str(/etc/haproxy/engine_key.map)]"'
    assert lines[at[-1]].strip() == f"{user} %[var(txn.shown_user)]"


def test_the_secret_is_created_without_a_key_that_the_pipeline_could_know() -> None:
    secret = decided(KEYED).engine_key
    assert secret is not None
    assert (secret["metadata"]["name"], secret["type"]) == (SECRET, "inference-operator.dev/engine-key")
    assert not {"data", "stringData"} & secret.keys()
    assert secret["metadata"]["ownerReferences"][0]["name"] == "qwen"
    assert all(one["kind"] != "Secret" for one in decided(KEYED).desired.values())


@pytest.mark.parametrize(
    ("raw", "settings"),
    [(PLAIN, Settings()), (EXTERNAL, Settings()), (KEYED, BEFORE)],
    ids=["no API keys", "External", "turned off"],
)
def test_without_api_keys_or_with_the_setting_off_no_engine_asks_for_a_key(raw: Manifest, settings: Settings) -> None:
    found = decided(raw, settings=settings)
    assert found.engine_key is None
    assert "engine-key" not in str(found.desired)
    assert "engine_key" not in str(found.desired)


def test_adapters_are_loaded_with_the_key() -> None:
    plain = adapted("one")
    raw = {**plain, "spec": {**plain["spec"], "router": KEYS}}
    found = outcome(inputs(raw, children=records(raw)))
    _, loader = template(found.desired)["spec"]["containers"]
    assert "key=/engine-key/key" in loader["command"]
    assert "/engine-key" in [mount["mountPath"] for mount in loader["volumeMounts"]]


def test_nothing_changes_while_pods_start_and_once_they_serve() -> None:
    first = decided(KEYED)
    unready = [replace(pod, ready=False, engine_key=SECRET) for pod in serving(first.desired)]
    for pods in ([], unready[:1], unready, [unready[0], *serving(first.desired, ROUTER)], serving(first.desired)):
        again = decided(KEYED, first.desired, pods)
        assert [template(again.desired, ref) for ref in (ENGINES, ROUTERS)] == [
            template(first.desired, ref) for ref in (ENGINES, ROUTERS)
        ]
        assert again.desired[CONFIG] == first.desired[CONFIG]
        assert "without a key" not in again.notice
    assert decided(KEYED, first.desired, serving(first.desired)).desired[ROUTERS] == first.desired[ROUTERS]


# Resources that run


def test_an_upgrade_restarts_neither_engines_nor_routers_and_says_how_to_renew_them() -> None:
    old = decided(KEYED, settings=BEFORE)
    new = decided(KEYED, old.desired, serving(old.desired))
    assert [new.desired[ref] for ref in (ENGINES, ROUTERS, CONFIG)] == [
        old.desired[ref] for ref in (ENGINES, ROUTERS, CONFIG)
    ]
    assert new.engine_key is None
    assert "`infd renew --routers -n default qwen`, then restart the engines" in new.notice
    assert "Only a NetworkPolicy keeps other pods from engines" in new.notice


def test_after_the_routers_the_engines_can_be_renewed() -> None:
    old = decided(KEYED, settings=BEFORE).desired
    keys_and_edit = requested(router={**KEYS, "podTemplate": EDITED})
    routers = decided(keys_and_edit, old, serving(old))
    assert named(routers.desired, ROUTERS) == SECRET
    assert named(routers.desired) == ""
    assert routers.engine_key is not None
    renewed = decided(keys_and_edit, routers.desired, [*serving(old, ENGINE), *serving(routers.desired, ROUTER)])
    assert template(renewed.desired) == template(old)
    assert "To close that, restart the engines" in renewed.notice
    edited = requested(router={**KEYS, "podTemplate": EDITED}, podTemplate=EDITED)
    pods = [*serving(old, ENGINE), *serving(routers.desired, ROUTER)]
    assert named(decided(edited, renewed.desired, pods).desired) == SECRET


def test_an_engine_is_not_told_to_ask_while_a_router_of_before_can_still_send_requests() -> None:
    old = decided(PLAIN).desired
    raw = requested(router=KEYS, podTemplate=EDITED)
    now = decided(raw, old, serving(old))
    assert (named(now.desired, ROUTERS), named(now.desired)) == (SECRET, "")
    leaving = [replace(pod, terminating=True, ready=False) for pod in serving(old, ROUTER)]
    pods = [*serving(old, ENGINE), *leaving, *serving(now.desired, ROUTER)]
    assert named(decided(raw, old, pods).desired) == ""
    assert named(decided(raw, old, [pods[0], pods[-1]]).desired) == SECRET


def test_api_keys_that_are_added_restart_routers_and_no_engine() -> None:
    old = decided(PLAIN).desired
    new = decided(KEYED, old, serving(old))
    assert template(new.desired) == template(old)
    assert named(new.desired, ROUTERS) == SECRET


def test_without_api_keys_routers_send_the_key_as_long_as_an_engine_asks_for_it() -> None:
    old = decided(KEYED).desired
    new = decided(PLAIN, old, serving(old))
    assert template(new.desired) == template(old)
    assert SENT in config(new.desired)
    assert "return status 401" not in config(new.desired)
    edited = requested(podTemplate=EDITED)
    rolling = decided(edited, new.desired, [*serving(old, ENGINE), *serving(new.desired, ROUTER)])
    assert (named(rolling.desired), named(rolling.desired, ROUTERS)) == ("", SECRET)
    done = decided(edited, rolling.desired, serving(rolling.desired))
    assert (named(done.desired), named(done.desired, ROUTERS), SENT in config(done.desired)) == ("", "", False)
    assert done.engine_key is None


def test_with_external_routing_engines_are_replaced_before_the_service_selects_them() -> None:
    old = decided(KEYED).desired
    new = decided(EXTERNAL, old, serving(old))
    assert named(new.desired) == ""
    assert new.desired[SERVICE_OF_ROUTERS] == old[SERVICE_OF_ROUTERS]
    assert new.desired[ROUTERS] == old[ROUTERS] | {"status": deployment_status(1)}
    replaced = decided(EXTERNAL, new.desired, [*serving(new.desired, ENGINE), *serving(old, ROUTER)])
    assert replaced.desired[SERVICE_OF_ROUTERS]["spec"]["selector"]["app.kubernetes.io/component"] == "engine"


def test_routers_send_the_key_that_engines_ask_for_also_if_a_backup_has_brought_another_uid() -> None:
    restored = {**KEYED, "metadata": {**KEYED["metadata"], "uid": "99999999-0000-4000-8000-000000000001"}}
    old = decided(KEYED).desired
    new = decided(restored, old, serving(old))
    assert [named(new.desired, ref) for ref in (ENGINES, ROUTERS)] == [SECRET] * 2
    assert new.engine_key is None, "that Secret is not the operator's to create"


# What is said


@pytest.mark.parametrize(("policies", "words"), [(True, "Only a NetworkPolicy keeps"), (False, "Nothing keeps")])
def test_a_kind_of_engine_that_cannot_ask_for_a_key_says_so(policies: bool, words: str) -> None:  # noqa: FBT001
    raw = requested(router=KEYS, engine={"kind": "SGLang"})
    notice = decided(raw, settings=Settings(network_policies_with_keys=policies)).notice
    assert f"{words} other pods from engines" in notice
    assert "This kind of engine cannot ask for one." in notice


def test_with_keys_only_routers_and_readers_of_metrics_may_connect_to_engines() -> None:
    objects = decided(KEYED).desired
    routers, *readers = objects[Ref(NETWORK_POLICY, "default", "qwen-engine")]["spec"]["ingress"][0]["from"]
    assert routers == {"podSelector": {"matchLabels": objects[ROUTERS]["spec"]["selector"]["matchLabels"]}}
    assert readers == metrics_readers(Settings())


def test_without_either_protection_the_status_says_that_nothing_keeps_other_pods_out() -> None:
    notice = decided(KEYED, settings=Settings(engine_keys=False, network_policies_with_keys=False)).notice
    assert "Nothing keeps other pods from engines" in notice
    assert "without a key" not in decided(PLAIN).notice
