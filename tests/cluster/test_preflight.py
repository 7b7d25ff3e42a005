"""Preflight checks: a line with a cure for each missing requirement of the machine."""

from dataclasses import replace

import pytest

from e2e.localkube.binaries import Level
from e2e.localkube.preflight import GIB, Machine, complaints

GOOD = Machine(is_root=True, is_debian=True, free_bytes=100 * GIB, missing_packages=())


@pytest.mark.parametrize("level", list(Level))
def test_preflight_accepts_a_machine_that_has_everything(level: Level) -> None:
    assert complaints(GOOD, level) == []


def test_the_control_plane_needs_no_root_and_less_disk() -> None:
    assert complaints(replace(GOOD, is_root=False, free_bytes=10 * GIB), Level.CONTROL_PLANE) == []


@pytest.mark.parametrize(
    ("lacking", "what", "cure"),
    [
        (replace(GOOD, is_root=False), "needs root", "sudo"),
        (replace(GOOD, free_bytes=24 * GIB), "24 GiB free", "XDG_CACHE_HOME"),
        (replace(GOOD, missing_packages=("runc",)), "missing: runc", "apt-get install runc"),
        (replace(GOOD, is_debian=False, missing_packages=("runc",)), "missing: runc", "install what provides them"),
    ],
)
def test_preflight_reports_each_missing_requirement_with_its_cure(lacking: Machine, what: str, cure: str) -> None:
    (line,) = complaints(lacking, Level.NODE)
    assert what in line
    assert cure in line
    assert "\n" not in line


def test_preflight_reports_all_missing_requirements_at_once() -> None:
    bare = Machine(is_root=False, is_debian=True, free_bytes=GIB, missing_packages=("nftables", "runc"))
    assert len(complaints(bare, Level.NODE)) == 3
