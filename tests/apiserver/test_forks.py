"""Forked commands run as they do when a shell starts them, and leave nothing behind."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from e2e.localkube.waiting import eventually
from tests.testing.forks import READ_AT_IMPORT, ROOT, Fork

SECONDS = 120
"""Limit of each command, on a busy machine."""
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: only
contexts: [{name: only, context: {cluster: only, user: only}}]
clusters: [{name: only, cluster: {server: "SERVER"}}]
users: [{name: only, user: {token: none}}]
"""
OPERATOR, INFD = (str(Path(sys.executable).with_name(name)) for name in ("inference-operator", "infd"))


def start(command: list[str], folder: Path, **environment: str) -> Fork:
    return Fork(command, {"PATH": os.environ["PATH"], **environment}, folder / "output", folder / "errors")


def module(folder: Path, text: str) -> list[str]:
    """The command of a module of this text."""
    (folder / "written.py").write_text(text)
    return [str(folder / "written.py")]


def test_a_command_has_its_own_arguments_variables_folder_and_output(tmp_path: Path) -> None:
    text = """
import json, os, sys
print(json.dumps([__name__, sys.argv[1:], dict(os.environ), os.getcwd(), sorted(os.listdir("/proc/self/fd"))]))
print("a complaint", file=sys.stderr)
sys.exit(3)
"""
    process = start([*module(tmp_path, text), "--one", "two"], tmp_path, MINE="yes")
    assert process.wait(SECONDS) == 3
    name, arguments, environment, folder, files = json.loads((tmp_path / "output").read_text())
    assert (name, arguments, folder) == ("__main__", ["--one", "two"], str(ROOT))
    assert environment == {"PATH": os.environ["PATH"], "MINE": "yes"}
    assert files == ["0", "1", "2", "3"], "the last one lists the folder"
    assert (tmp_path / "errors").read_text() == "a complaint\n"


def test_the_operator_reads_its_settings_after_the_fork(tmp_path: Path) -> None:
    for setting in ("INFERENCE_OPERATOR_HTTP_PORT", "INFERENCE_OPERATOR_RESYNC_SECONDS"):
        process = start([OPERATOR], tmp_path, **{setting: "none"})
        assert process.wait(SECONDS) == 2
        assert (tmp_path / "errors").read_text().splitlines()[-1].startswith(f"{setting}: ")


def test_both_clients_read_the_kubeconfig_of_the_command(tmp_path: Path) -> None:
    text = """
import asyncio
from kubernetes import aio, client, config
config.load_kube_config()
asyncio.run(aio.config.load_kube_config())
print(client.Configuration.get_default_copy().host, aio.client.Configuration.get_default_copy().host)
"""
    for server in ("https://first.example", "https://second.example"):
        path = tmp_path / "kubeconfig"
        path.write_text(KUBECONFIG.replace("SERVER", server))
        process = start(module(tmp_path, text), tmp_path, KUBECONFIG=str(path))
        assert process.wait(SECONDS) == 0, (tmp_path / "errors").read_text()
        assert (tmp_path / "output").read_text().splitlines()[-1] == f"{server} {server}"


def test_nothing_else_reads_at_its_import_what_differs_between_operators() -> None:
    text = """
import json, os, sys
reads = []
def read(self, name, read=os._Environ.__getitem__):
    frame = sys._getframe(1)
    while frame.f_globals["__name__"] in ("os", "collections.abc", "_collections_abc"):
        frame = frame.f_back
    reads.append((name, frame.f_globals["__name__"]))
    return read(self, name)
os._Environ.__getitem__ = read
import inference_operator.app
print(json.dumps(reads))
"""
    ended = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True)
    # wsgiref copies all variables for CGI programs, which nothing here serves.
    reads = [(name, by) for name, by in json.loads(ended.stdout) if by != "wsgiref.handlers"]
    assert len({name for name, _ in reads}) > 1, "others are seen"
    assert sorted({by for name, by in reads if name == "KUBECONFIG"}) == sorted(READ_AT_IMPORT)
    assert not [name for name, _ in reads if name.startswith("INFERENCE_OPERATOR_")]


def test_output_is_appended(tmp_path: Path) -> None:
    for _ in range(2):
        assert start([INFD, "--version"], tmp_path).wait(SECONDS) == 0
    first, second = (tmp_path / "output").read_text().splitlines()
    assert first == second


def test_a_module_runs_by_its_name(tmp_path: Path) -> None:
    process = start([sys.executable, "-m", "tests.apiserver.wrong_clock", "many"], tmp_path)
    assert process.wait(SECONDS) == 1
    assert "could not convert string to float: 'many'" in (tmp_path / "errors").read_text()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1])
def test_a_signal_ends_it(tmp_path: Path, signum: signal.Signals) -> None:
    text = """
import time
print("begun", flush=True)
time.sleep(600)
"""
    process = start(module(tmp_path, text), tmp_path)
    eventually((tmp_path / "output").read_text, seconds=SECONDS, what="it has begun")
    assert process.poll() is None
    process.send_signal(signum)
    assert process.wait(SECONDS) == -signum
    process.send_signal(signum)  # it has ended: nobody is signalled


def test_a_fork_ends_with_the_process_that_began_it_also_while_it_is_paused(tmp_path: Path) -> None:
    sleeper = module(tmp_path, "import os, signal, time; print(os.getpid(), flush=True); time.sleep(600)")
    begin = f"""
import time
from pathlib import Path
from tests.testing.forks import Fork
folder = Path({str(tmp_path)!r})
forks = [Fork({sleeper}, {{}}, folder / name, folder / "errors") for name in ("first", "second")]
time.sleep(600)
"""
    outputs = (tmp_path / "first", tmp_path / "second")
    with subprocess.Popen([sys.executable, "-c", begin], cwd=ROOT) as beginner:
        try:
            eventually(
                lambda: all(output.exists() and output.read_text() for output in outputs),
                seconds=SECONDS,
                what="they have begun",
            )
            first, second = (int(output.read_text()) for output in outputs)
            os.kill(second, signal.SIGSTOP)
        finally:
            beginner.kill()
    for number in (first, second):
        process = Path(f"/proc/{number}")
        eventually(partial(_is_gone, process), seconds=SECONDS, what=f"no orphan {process} remains")


def _is_gone(process: Path) -> bool:
    return not process.exists()
