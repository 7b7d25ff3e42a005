import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from inference_operator.manifest import Owner
from inference_operator.router.haproxy import (
    MAX_CONNECTIONS,
    MAX_WAIT_SECONDS,
    MIN_SLOTS,
    QUEUE_SIZE,
    RouterRequest,
    haproxy_cfg,
    slots,
)
from tests.testing.builders import KEY, SETTINGS, UID
from tests.testing.golden import GoldenFile

REQUEST = RouterRequest(
    engines_host="qwen-engines.default.svc.cluster.local",
    engine_port=8000,
    engine_health_path="/health",
    engine_max_concurrency=256,
    slots=32,
    replicas=2,
    drain_seconds=300,
    progress_deadline_seconds=600,
    owner=Owner(KEY, UID),
    settings=SETTINGS,
)
CONFIG = haproxy_cfg(REQUEST)


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(GoldenFile.ending("cfg"))


def test_the_haproxy_configuration_equals_the_golden_file(golden: SnapshotAssertion) -> None:
    assert golden(name="haproxy") == CONFIG


def test_the_haproxy_configuration_has_no_unrendered_placeholder() -> None:
    assert "{{" not in CONFIG
    assert "{%" not in CONFIG
    assert "None" not in CONFIG
    assert not re.search(r"[ \t]$", CONFIG, re.MULTILINE)
    assert CONFIG.endswith("\n")


def test_the_haproxy_configuration_is_rendered_deterministically() -> None:
    again = haproxy_cfg(replace(REQUEST))
    assert again == CONFIG


def test_retries_of_a_held_request_cover_the_queue_timeout() -> None:
    assert f"retries {MAX_WAIT_SECONDS}\n" in CONFIG
    assert f"timeout queue {MAX_WAIT_SECONDS}s\n" in CONFIG
    assert "retry-on conn-failure\n" in CONFIG


def test_the_connection_limit_covers_held_requests() -> None:
    assert QUEUE_SIZE < MAX_CONNECTIONS


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
