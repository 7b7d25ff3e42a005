"""A flood of silent connections at the port of a leader, as many as a core makes: `-m full`."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.group_of_pods import Group

FLOOD = """
import selectors, socket, sys, time
port, seconds, most = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
selector, live, end = selectors.DefaultSelector(), set(), time.monotonic() + seconds
while time.monotonic() < end:
    while len(live) < most:
        new = socket.socket()
        new.bind(("127.0.0.9", 0))
        new.setblocking(False)
        new.connect_ex(("127.0.0.1", port))
        selector.register(new, selectors.EVENT_READ)
        live.add(new)
    for key, _ in selector.select(0.001):
        selector.unregister(key.fileobj)
        key.fileobj.close()
        live.discard(key.fileobj)
"""
"""Connects from an address of its own, says nothing, and connects again once it is closed."""
STRANGERS, PROBES, PROBE_PERIOD_SECONDS = 500, 300, 0.05
FLOOD_SECONDS, MOST_SECONDS_TO_JOIN = 120, 3.0

pytestmark = pytest.mark.full


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    made = Group(tmp_path, 2)
    yield made
    made.close()


def flood(group: Group, seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", FLOOD, str(group.control), str(seconds), str(STRANGERS)])


def test_no_probe_is_lost_under_a_flood(group: Group) -> None:
    group.serve()
    strangers = flood(group, FLOOD_SECONDS)
    try:
        lost = 0
        for _ in range(PROBES):
            lost += group.leader.status("/ready") != 200
            time.sleep(PROBE_PERIOD_SECONDS)
        assert strangers.poll() is None
        assert lost == 0
    finally:
        strangers.kill()
        strangers.wait()


def test_a_member_joins_under_a_flood(group: Group) -> None:
    group.leader.start()
    strangers = flood(group, FLOOD_SECONDS)
    try:
        time.sleep(1)
        group.pods[1].start()
        begin = time.monotonic()
        group.until_ready()
        assert time.monotonic() - begin <= MOST_SECONDS_TO_JOIN
    finally:
        strangers.kill()
        strangers.wait()
