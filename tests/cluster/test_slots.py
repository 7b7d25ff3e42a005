"""Slots of parallel local clusters: each has separate ports and address ranges."""

import socket
import tempfile
from itertools import combinations

import pytest

from e2e.localkube.binaries import Level
from e2e.localkube.errors import ClusterError
from e2e.localkube.local import up
from e2e.localkube.network import NODE_SLOTS, IpFamily, Subnets
from e2e.localkube.ports import PORTS_PER_SLOT, SLOTS, free_slot, ports
from e2e.localkube.state import Record, layout, read_record

LAST = SLOTS - 1
"""Clusters take the lowest free slots, so nobody but this test uses the last one."""


def test_taken_cluster_slots_and_slots_with_a_busy_port_are_skipped() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", ports(LAST - 1).scheduler))
        busy.listen()
        assert free_slot(candidates=[LAST - 2, LAST - 1, LAST], taken={LAST - 2}) == LAST


def test_the_error_without_a_free_cluster_slot_names_the_cure() -> None:
    with pytest.raises(ClusterError, match="end one with `python -m"):
        free_slot(candidates=[LAST], taken={LAST})


def test_cluster_slots_share_no_port() -> None:
    assert ports(1).api_server - ports(0).api_server == PORTS_PER_SLOT
    assert max(ports(0).etcd_peer, ports(0).scheduler) < ports(1).api_server


@pytest.mark.parametrize("family", IpFamily.DUAL_STACK.single)
def test_address_ranges_of_cluster_slots_do_not_overlap(family: IpFamily) -> None:
    every = [
        range_
        for slot in range(NODE_SLOTS)
        for range_ in (Subnets(slot, family).services, Subnets(slot, family).pods, Subnets(slot, family).link)
    ]
    assert {range_.version for range_ in every} == {4 if family is IpFamily.IPV4 else 6}
    assert not any(one.overlaps(other) for one, other in combinations(every, 2))


@pytest.mark.parametrize("name", ["", "Demo", "a/b", "..", "-a", "a" * 33])
def test_a_cluster_name_that_is_invalid_as_folder_or_host_name_is_refused(name: str) -> None:
    with pytest.raises(ClusterError, match="such as demo"):
        layout(name)


def test_a_cache_folder_too_deep_for_a_socket_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/" + "x" * 100)
    with pytest.raises(ClusterError, match="set XDG_CACHE_HOME to a shorter folder"):
        layout("demo")


def test_ipv6_is_refused_for_a_cluster_without_pods() -> None:
    with pytest.raises(ClusterError, match="use --level node"):
        up("any", Level.CONTROL_PLANE, ip_family=IpFamily.IPV6)


def test_a_cluster_recorded_by_another_version_of_the_tool_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as short:  # pytest's own folders are too deep for a socket
        monkeypatch.setenv("XDG_CACHE_HOME", short)
        path = layout("other").record
        path.parent.mkdir(parents=True)
        path.write_text('{"name": "other", "provider": "local", "level": "node", "slot": 3, "unknown": 1}')
        assert read_record("other") == Record("other", "local", level=Level.NODE, slot=3)
