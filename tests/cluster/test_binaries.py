"""Build keys and toolchain versions of the binaries that the local cluster uses."""

from pathlib import Path

import pytest

from e2e.go_modules import ETCD_MODULE, MODULES
from e2e.localkube.binaries import COMMANDS, MODULE, Level, build_key, ensure_command, module_version
from e2e.localkube.errors import ClusterError
from e2e.localkube.toolchain import PYPI_VERSION, required_version


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (tmp_path / "go.mod").write_text("module example\n\ngo 1.26.6\n")
    (tmp_path / "go.sum").write_text("")
    (tmp_path / "pause").mkdir()
    (tmp_path / "pause" / "main.go").write_text("package main")
    return tmp_path


def test_the_same_go_module_gives_the_same_build_key(module: Path) -> None:
    before = build_key(module, ("-trimpath",))
    (module / "go.mod").touch()
    assert build_key(module, ("-trimpath",)) == before


@pytest.mark.parametrize("file", ["go.mod", "go.sum", "pause/main.go"])
def test_a_changed_file_of_the_go_module_changes_the_build_key(module: Path, file: str) -> None:
    before = build_key(module, ())
    (module / file).write_text("changed")
    assert build_key(module, ()) != before


def test_build_flags_change_the_build_key(module: Path) -> None:
    assert build_key(module, ("-trimpath",)) != build_key(module, ())


def test_go_mod_requires_the_package_of_every_command() -> None:
    go_mod = (MODULE / "go.mod").read_text()
    for command in COMMANDS[Level.NODE]:
        if command.package.startswith("./"):
            assert (MODULE / command.package / "main.go").is_file()
        else:
            assert f"\t{command.package}\n" in go_mod


def test_snapshots_are_restored_by_the_version_of_etcd_that_reads_them() -> None:
    theirs = module_version((ETCD_MODULE / "go.mod").read_text(), "go.etcd.io/etcd/etcdutl/v3")
    assert theirs == module_version((MODULE / "go.mod").read_text(), "go.etcd.io/etcd/server/v3")


def test_a_go_module_that_go_mod_does_not_require_is_named() -> None:
    with pytest.raises(ClusterError, match=r"does not require example\.com/absent"):
        module_version("module example\n", "example.com/absent")


def test_a_go_mod_without_a_version_is_refused() -> None:
    with pytest.raises(ClusterError, match="no `go` line"):
        required_version("module example\n")


def test_an_unknown_command_is_refused_with_the_names_of_known_commands() -> None:
    with pytest.raises(ClusterError, match=r"no command kubctl; there are: etcd, .*kubectl"):
        ensure_command("kubctl")


def test_the_toolchain_from_pypi_builds_every_module() -> None:
    wanted = [required_version(path.read_text()) for path in MODULES.glob("*/go.mod")]
    assert len(wanted) > 10
    assert max(wanted) <= required_version(f"go {PYPI_VERSION}\n")
