"""Completion of shells and of kubectl."""

import os
import stat
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from inference_operator.cli import completer
from inference_operator.cli.main import COMMANDS
from inference_operator.cli.manifests import SHELLS
from tests.cli.conftest import Infd

KUBECTL = """#!/bin/sh
[ -z "$_ARGCOMPLETE$COMP_LINE$COMP_POINT" ] || exit 1
case "$*" in
  *"config get-contexts"*) echo prod; echo test; echo arn:aws:eks:eu-west-1:123:cluster/prod ;;
  *"get namespaces"*) echo namespace/team-a; echo namespace/team-b ;;
  *"get inferencedeployments"*--namespace=team-b*) echo inferencedeployment.inference-operator.dev/otter ;;
  *"get inferencedeployments"*) echo inferencedeployment.inference-operator.dev/qwen; exit 0 ;;
  *) exit 1 ;;
esac
"""


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl first on the PATH that knows a cluster."""
    path = tmp_path / "kubectl"
    path.write_text(KUBECTL)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return path


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script(infd: Infd, shell: str) -> None:
    status, said, complaints = infd("completion", shell)
    assert (status, complaints) == (0, "")
    assert "infd" in said
    assert "_ARGCOMPLETE" in said


@pytest.mark.usefixtures("kubectl")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["sta"], ["status"]),
        (["status", ""], ["qwen"]),
        (["status", "-n", "team-b", ""], ["otter"]),
        (["status", "-n", "te"], ["team-a", "team-b"]),
        (["list", "--context", ""], ["prod", "test", "arn:aws:eks:eu-west-1:123:cluster/prod"]),
        (["plan", "--diff", "-n", "te"], ["team-a", "team-b"]),
        (["list", "--output", ""], ["table", "json", "yaml", "wide", "name"]),
        (["run", ""], []),
        (["chat", "qwen", "-n", "te"], ["team-a", "team-b"]),
        (["cache", "pre"], ["prefetch"]),
    ],
)
def test_words_are_completed(words: list[str], found: list[str]) -> None:
    assert [one for one in completer.completions(words) if not one.startswith("-")] == found


@pytest.mark.usefixtures("kubectl")
def test_options_are_completed_after_a_dash_so_that_the_only_name_is_whole() -> None:
    assert completer.completions(["status", ""]) == ["qwen"]
    assert {"--namespace", "--watch"} <= set(completer.completions(["status", "--"]))


def test_every_command_is_completed_and_none_asks_a_cluster_for_that() -> None:
    assert set(COMMANDS) <= set(completer.completions([""]))


def test_without_kubectl_no_names_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert [one for one in completer.completions(["status", ""]) if not one.startswith("-")] == []


@pytest.mark.usefixtures("kubectl")
def test_kubectl_finds_the_plugins_completion_and_gets_no_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = {one.name: one.value for one in entry_points(group="console_scripts")}
    assert commands.get("kubectl_complete-infd", "inference_operator.cli.completer:kubectl").endswith(":kubectl")
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-infd", "status", "-n", "team-b", "o"])
    completer.kubectl()
    assert capsys.readouterr().out == "otter\n:4\n"


@pytest.mark.usefixtures("kubectl")
def test_bash_completes_names(tmp_path: Path) -> None:
    (tmp_path / "infd").write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'from inference_operator.cli.main import main; main()' \"$@\"\n"
    )
    (tmp_path / "infd").chmod(0o755)
    script = 'eval "$(infd completion bash)"; COMP_WORDBREAKS=" "; COMP_LINE="infd status q"; COMP_POINT=${#COMP_LINE};'
    script += ' COMP_TYPE=9; _python_argcomplete infd; printf "%s\\n" "${COMPREPLY[@]}"'
    ended = subprocess.run(["/bin/bash", "-c", script], capture_output=True, text=True, check=False)
    assert ended.stdout.strip() == "qwen", ended.stderr
