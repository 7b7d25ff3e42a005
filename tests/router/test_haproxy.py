import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from inference_operator.api.router import MAX_ROUTERS, RouterAccessLog, RouterSpec, RouterStrategy
from inference_operator.fleet.rollout_slots import TurnInputs
from inference_operator.manifest import Owner
from inference_operator.router.deployment import haproxy_command
from inference_operator.router.haproxy import CHECK_SECONDS, CONNECT_SECONDS, config_files, haproxy_cfg
from inference_operator.router.inputs import MIN_SLOTS, RouterInputs, Upstream, slots
from inference_operator.router.observe import LOG_FIELDS
from inference_operator.router.process import CONFIG_FILE
from inference_operator.router.servers import CHECK_INTERVAL_SECONDS
from tests.testing.builders import KEY, NOW, SETTINGS, UID
from tests.testing.golden import GoldenFile

ENGINES = Upstream(
    name="engine",
    host="qwen-engines.default.svc.cluster.local",
    port=8000,
    health_path="/health",
    max_concurrency=256,
    model_names=("qwen",),
    api_paths=("/v1/completions", "/v1/models"),
)
REQUEST = RouterInputs(
    upstreams=(ENGINES,),
    slots=32,
    spec=RouterSpec(),
    stated=RouterSpec(),
    drain_seconds=300,
    progress_deadline_seconds=600,
    owner=Owner(KEY, UID),
    settings=SETTINGS,
    turn=TurnInputs(NOW),
)
CONFIG = haproxy_cfg(REQUEST)
PREFIX_AFFINITY = replace(REQUEST, spec=RouterSpec(strategy=RouterStrategy.PREFIX_AFFINITY))
USAGE = replace(REQUEST, spec=RouterSpec.model_validate({"usage": "Enabled", "accessLog": "Errors"}))
WITH_TLS = replace(REQUEST, spec=RouterSpec.model_validate({"tls": {"secretRef": {"name": "llm-tls"}}}))
WITH_ADAPTERS = replace(REQUEST, upstreams=(replace(ENGINES, has_adapters=True),))
CONFIGS = [haproxy_cfg(one) for one in (REQUEST, PREFIX_AFFINITY, USAGE, WITH_TLS, WITH_ADAPTERS)]


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(GoldenFile.ending("cfg"))


def test_the_haproxy_configuration_equals_the_golden_file(golden: SnapshotAssertion) -> None:
    assert golden(name="haproxy") == CONFIG


def test_the_haproxy_configuration_of_prefix_affinity_equals_the_golden_file(golden: SnapshotAssertion) -> None:
    assert golden(name="haproxy-prefix-affinity") == haproxy_cfg(PREFIX_AFFINITY)


def test_the_haproxy_configuration_with_usage_equals_the_golden_file(golden: SnapshotAssertion) -> None:
    assert golden(name="haproxy-usage") == haproxy_cfg(USAGE)


def test_the_haproxy_configuration_with_tls_equals_the_golden_file(golden: SnapshotAssertion) -> None:
    assert golden(name="haproxy-tls") == haproxy_cfg(WITH_TLS)


def test_the_haproxy_configuration_with_adapters_equals_the_golden_file(golden: SnapshotAssertion) -> None:
    assert golden(name="haproxy-adapters") == haproxy_cfg(WITH_ADAPTERS)


def test_a_script_is_a_file_of_the_configuration_only_where_it_is_used() -> None:
    of_all = "metrics.lua entry.lua peers.lua fairness.map hold.lua gateway_key.lua gateway_key.map"
    always = {CONFIG_FILE, *of_all.split()}
    assert set(config_files(REQUEST)) == always
    assert set(config_files(PREFIX_AFFINITY)) == {*always, "affinity.lua"}
    assert set(config_files(USAGE)) == {*always, "usage.lua"}
    assert set(config_files(WITH_ADAPTERS)) == {*always, "adapters.lua", "adapters.map"}


@pytest.mark.parametrize(
    ("access_log", "format_lines", "options"),
    [
        (RouterAccessLog.ENABLED, 1, []),
        (RouterAccessLog.ERRORS, 1, ["option dontlog-normal"]),
        (RouterAccessLog.DISABLED, 0, ["no log"]),
    ],
)
def test_the_access_log_of_the_frontend_follows_the_field(
    access_log: RouterAccessLog, format_lines: int, options: list[str]
) -> None:
    config = haproxy_cfg(replace(REQUEST, spec=RouterSpec.model_validate({"accessLog": access_log.value})))
    frontend = config.split("\nfrontend api\n")[1].split("\nbackend engines\n")[0]
    lines = [line.strip() for line in frontend.splitlines()]
    assert [line for line in lines if line in {"option dontlog-normal", "no log"}] == options
    assert sum(line.startswith("log-format ") for line in lines) == format_lines


def test_the_access_log_has_no_field_of_a_body_a_query_or_a_key() -> None:
    assert not [value for value in LOG_FIELDS.values() if re.search("body|query|req[.]|HU|auth", value)]


@pytest.mark.parametrize("config", CONFIGS)
def test_the_haproxy_configuration_has_no_unrendered_placeholder(config: str) -> None:
    assert "{{" not in config
    assert "{%" not in config
    assert "None" not in config
    assert not re.search(r"[ \t]$", config, re.MULTILINE)
    assert config.endswith("\n")


def test_the_haproxy_configuration_is_rendered_deterministically() -> None:
    again = haproxy_cfg(replace(REQUEST))
    assert again == CONFIG


def test_the_hold_comes_from_max_wait_and_the_queue_timeout_from_the_queue() -> None:
    spec = RouterSpec.model_validate({"coldStart": {"timeout": "6m"}, "queue": {"timeout": "90s"}})
    config = haproxy_cfg(replace(REQUEST, spec=spec))
    assert "lua.hold 360\n" in config
    assert "timeout queue 90s\n" in config
    assert "lua.hold 300\n" in CONFIG
    assert "timeout queue 300s\n" in CONFIG


def test_the_number_of_router_pods_changes_no_configuration() -> None:
    assert haproxy_cfg(replace(REQUEST, spec=RouterSpec(replicas=MAX_ROUTERS))) == CONFIG


def test_each_haproxy_process_may_fill_an_engine_alone() -> None:
    """All connections of clients may arrive at one process, and an engine of four sequences must then compute four."""
    assert " maxconn 4 observe" in haproxy_cfg(replace(REQUEST, upstreams=(replace(ENGINES, max_concurrency=4),)))


def test_each_slot_is_counted_when_held_requests_are() -> None:
    counted = re.findall(r"srv_conn\(engines/e(\d+)\)", CONFIG)
    assert [int(number) for number in counted] == list(range(1, REQUEST.slots + 1))


def test_a_health_check_waits_longer_than_a_busy_engine_and_its_connection_for_lost_packets() -> None:
    assert CHECK_SECONDS >= 60
    assert CHECK_INTERVAL_SECONDS > CONNECT_SECONDS >= 3


@pytest.mark.parametrize(("drain_seconds", "spread"), [(1, "500ms"), (300, "3000ms")])
def test_a_stopping_router_closes_idle_connections_before_its_hard_stop(drain_seconds: int, spread: str) -> None:
    assert f"close-spread-time {spread}\n" in haproxy_cfg(replace(REQUEST, drain_seconds=drain_seconds))


@given(replicas=st.integers(0, 1024), live=st.sampled_from([0, 1, 32, 64, 128, 2048]))
def test_server_slots_cover_a_surge_and_stay_while_they_suffice(replicas: int, live: int) -> None:
    number = slots(replicas, live)
    assert number > replicas
    if live > replicas:
        assert number == live
    else:
        assert number >= max(MIN_SLOTS, 2 * replicas)
        assert number & (number - 1) == 0
    assert slots(replicas, number) == number


@given(replicas=st.integers(0, 1024))
def test_server_slots_are_no_more_than_needed(replicas: int) -> None:
    assert slots(replicas, 0) < 2 * max(MIN_SLOTS, 2 * replicas)


def test_scaling_up_to_sixteen_engines_keeps_the_server_slots() -> None:
    assert {slots(replicas, MIN_SLOTS) for replicas in range(17)} == {MIN_SLOTS}


@pytest.mark.parametrize(("slots", "over_tcp"), [(32, False), (64, True), (512, True)])
def test_dns_is_asked_over_tcp_where_an_answer_can_be_too_long_for_udp(*, slots: int, over_tcp: bool) -> None:
    config = haproxy_cfg(replace(REQUEST, slots=slots))
    assert ("parse-resolv-conf" not in config) == over_tcp
    assert ('nameserver cluster "tcp@${DNS_SERVER}:53"' in config) == over_tcp
    assert (haproxy_command(slots)[0] == "sh") == over_tcp


HELPERS = replace(
    ENGINES,
    name="helper",
    host="qwen-helpers.default.svc.cluster.local",
    port=9000,
    health_path="/alive",
    max_concurrency=16,
    model_names=("qwen", "small"),
    api_paths=("/v1/models", "/metrics"),
)
BOTH = replace(REQUEST, upstreams=(ENGINES, replace(HELPERS, weight=3)))


def lines(config: str, word: str) -> list[str]:
    return [line.strip() for line in config.splitlines() if line.split()[:1] == [word]]


def test_each_upstream_has_its_servers_with_its_own_address_weight_and_limit() -> None:
    *ours, _ = (line.split(" resolvers ")[0] for line in lines(haproxy_cfg(BOTH), "server-template"))
    assert ours == [
        "server-template engine_ 32 qwen-engines.default.svc.cluster.local:8000 weight 21 maxconn 256",
        "server-template helper_ 32 qwen-helpers.default.svc.cluster.local:9000 weight 64 maxconn 16",
    ]


def test_the_lightest_of_several_upstreams_gets_requests_too() -> None:
    """Weight 0 would drain it."""
    heavy = replace(REQUEST, upstreams=(replace(ENGINES, weight=200), HELPERS))
    assert re.findall(r" weight (\d+) ", haproxy_cfg(heavy)) == ["64", "1"]


def test_engines_of_all_upstreams_get_the_host_of_the_first_one() -> None:
    (host,) = (line for line in lines(haproxy_cfg(BOTH), "http-request") if " set-header Host " in line)
    assert host.endswith(" qwen-engines.default.svc.cluster.local")


def test_each_server_is_checked_at_the_path_and_host_of_its_upstream() -> None:
    (check,) = (line for line in lines(haproxy_cfg(BOTH), "http-check"))
    assert "uri-lf %[srv_name,regsub(^engine_.*,/health),regsub(^helper_.*,/alive)] ver" in check
    assert check.endswith("regsub(^helper_.*,qwen-helpers.default.svc.cluster.local)]")


def test_held_requests_are_counted_over_the_servers_of_all_upstreams() -> None:
    counted = re.findall(r"srv_conn\(engines/(\w+?)\d+\)", haproxy_cfg(BOTH))
    assert counted == ["engine_"] * BOTH.slots + ["helper_"] * BOTH.slots


def test_a_path_is_forwarded_only_if_every_upstream_serves_it() -> None:
    """The API of one engine can be the control of another one, which has no authentication."""
    forwarded = [line for line in lines(haproxy_cfg(BOTH), "acl") if line.startswith("acl api_path ")]
    assert forwarded == ["acl api_path path /v1/models", "acl api_path path_beg /v1/models/"]
    nothing = haproxy_cfg(replace(BOTH, upstreams=(ENGINES, replace(HELPERS, api_paths=("/echo",)))))
    assert [line for line in lines(nothing, "acl") if " api_path " in line] == ["acl api_path always_false"]


def test_the_models_of_all_upstreams_are_listed_once() -> None:
    assert BOTH.model_names == ("qwen", "small")
