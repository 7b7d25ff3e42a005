"""Modules that either of two pytest processes runs: the one that is free first. A plugin of pytest (`end_to_end.py`).

1. Both processes collect these modules, and run them last, in the order of the options.
2. Before the first test of an option's modules, a process creates a file in the folder that both have. Only one can.
3. That one runs all tests of these modules. The other one passes over them.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

FOLDER, SHARED = "--shared-folder", "--shared"


def options(folder: Path, groups: Iterable[Sequence[str]]) -> list[str]:
    """The arguments of both processes; each group of modules is run as a whole."""
    return ["-p", __name__, f"{FOLDER}={folder}", *(f"{SHARED}={','.join(group)}" for group in groups)]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption(FOLDER, type=Path, help="an empty folder that both processes have")
    parser.addoption(SHARED, action="append", default=[], help="modules, separated by commas, that one of both runs")


def pytest_configure(config: pytest.Config) -> None:
    """Share modules if there is a folder."""
    if folder := config.getoption(FOLDER):
        config.pluginmanager.register(_SharedModules(folder, config.getoption(SHARED)))


class _SharedModules:
    def __init__(self, folder: Path, groups: Sequence[str]) -> None:
        self._folder = folder
        self._group = {module: number for number, group in enumerate(groups) for module in group.split(",")}
        self._is_own: dict[int, bool] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Run them last: the process that is free by then takes them."""
        items.sort(key=lambda item: self._group.get(_module(item), -1))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """True, which is as if the test had been run, for a test of the other process."""
        group = self._group.get(_module(item))
        return None if group is None or self._takes(group) else True

    def _takes(self, group: int) -> bool:
        if group not in self._is_own:
            try:
                (self._folder / str(group)).touch(exist_ok=False)
                self._is_own[group] = True
            except FileExistsError:
                self._is_own[group] = False
        return self._is_own[group]


def _module(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
