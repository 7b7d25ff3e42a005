"""No text of a cluster reaches a terminal with a control character, whichever command prints it.

A tenant writes arguments and annotations, an engine its log, a model its answers. A terminal would carry out what it
finds in them: change its title, fill the clipboard, or write over what an administrator reads.
"""

import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from rich.console import Console
from rich.live import Live
from rich.text import Text

from inference_operator.cli.chat.command import ChatWaits
from inference_operator.cli.doctor.kinds import MUTATING_WEBHOOKS
from inference_operator.cli.main import COMMANDS
from inference_operator.cli.status.screen import Harmless
from inference_operator.kube.lookup_listings import EVENT
from inference_operator.manifest import (
    CLAIM,
    CONFIG_MAP,
    DEPLOYMENT,
    INFERENCE_DEPLOYMENT,
    JOB,
    MODEL_GATEWAY,
    NODE,
    POD,
    Manifest,
)
from inference_operator.objects.adapter_list import ADVERTISED
from inference_operator.objects.names import ROUTER
from tests.cli.conftest import Infd
from tests.cli.test_doctor import POD_HOOK, facts, named, operator
from tests.cli.test_gateway import NAMES, gateway
from tests.status.situations import RAW
from tests.status.test_states import report_of
from tests.testing.builders import H100, UID, inference_deployment, model_known, pod, ready_pod, waiting
from tests.testing.stored_answers import ApiServer, serving

ATTACK = "\x1b]52;c;aGk=\x07\x1b[2J\x1b[31m\x9b31m\x90q\x9c\r\x08\x7f\u202e\u2066\u2028"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
METRICS = (Path(__file__).parents[1] / "engines" / "vllm-0.32.0-metrics.txt").read_text()
LOG = f"2026-11-26T10:00:00.5Z RuntimeError: Engine core {ATTACK} failed\n2026-11-26T10:00:01.5Z {ATTACK}\n"

CHECKED = frozenset(
    ("apiVersion", "kind", "name", "namespace", "uid", "labels", "controller", "phase", "type", "status", "matchLabels")
)
"""Fields in whose text the API server allows no control character, or that decide what is read at all."""
FREE = frozenset(("message", "note", "reason", "annotations", "args", "env", "image", "webhooks", "url", "source"))
"""Some fields of any text."""


def hostile(value: Any, *, everywhere: bool, field: str = "", free: bool = False) -> Any:  # noqa: ANN401 - JSON
    """An object with the attack in all texts that may have it, or in those of `FREE`."""
    free = everywhere or free or field in FREE
    if isinstance(value, dict):
        return {
            name: one if name == "labels" else hostile(one, everywhere=everywhere, field=name, free=free)
            for name, one in value.items()
        }
    if isinstance(value, list):
        return [hostile(one, everywhere=everywhere, field=field, free=free) for one in value]
    is_text = isinstance(value, str) and field not in CHECKED and not re.match(r"\d", value)
    return f"{value}{ATTACK}" if is_text and free else value


class Hostile(ApiServer):
    """An API server whose every text attacks the terminal."""

    kinds: ClassVar[dict[str, list[Manifest]]] = {}
    """Objects by the plural names of their kinds."""
    everywhere: ClassVar[bool] = False
    code: ClassVar[int] = 0
    """The status of all answers; 0 for what is asked for."""

    def do_GET(self) -> None:  # noqa: N802 - a hook of the base class
        path = self.path.partition("?")[0]
        *_, kind, last = path.split("/")
        if "/proxy/" in path:
            self._send(200, f"{METRICS}# {ATTACK}\n".encode())
        elif last == "log":
            self._send(200, LOG.encode())
        elif last in self.kinds:
            self._send(200, {"metadata": {"resourceVersion": "1"}, "items": self.kinds[last]})
        else:
            same = [one for one in self.kinds.get(kind, ()) if one["metadata"]["name"] == last]
            self._send(200 if same else 404, same[0] if same else {"message": "not found"})

    def do_POST(self) -> None:  # noqa: N802 - a hook of the base class
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["kind"] == JOB.name:
            failed = {"type": "Failed", "status": "True", "message": "it failed"}
            self.kinds[JOB.plural].append({**body, "status": {"conditions": [failed]}})
        self._send(201, {"status": {"allowed": True}, "metadata": {}})

    def do_PATCH(self) -> None:  # noqa: N802 - a hook of the base class
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._send(200, yaml.safe_load(body))

    def do_DELETE(self) -> None:  # noqa: N802 - a hook of the base class
        self._send(200, {})

    def _send(self, code: int, content: object) -> None:
        refused = {"kind": "Status", "code": self.code or code, "message": "it is refused", "reason": "Forbidden"}
        shown = refused if self.code or code >= 400 else content
        self.send_response(self.code or code)
        self.end_headers()
        raw = shown if isinstance(shown, bytes) else json.dumps(hostile(shown, everywhere=self.everywhere)).encode()
        self.wfile.write(raw)


def with_ports(one: Manifest, *names: str) -> Manifest:
    ports = [{"name": name, "containerPort": 8000 + number} for number, name in enumerate(names)]
    return {**one, "spec": {"containers": [{"name": "engine", "ports": ports, "args": ["--a=b"]}]}}


def crashing(name: str) -> Manifest:
    status = waiting("CrashLoopBackOff", "back-off", last={"terminated": {"exitCode": 1, "message": "KeyError: 1"}})
    status["containerStatuses"][0]["restartCount"] = 1
    return with_ports(pod(name=name, status=status))


def cluster(state: str) -> dict[str, list[Manifest]]:
    """The objects of a cluster with a resource in this state."""
    checked = {kind.plural: list(each) for kind, each in facts().lists.items() if not isinstance(each, str)}  # type: ignore[arg-type] # seen
    event = {"lastTimestamp": "2026-01-02T03:00:05Z", "reason": "ScaledUp", "message": "From 1 to 2", "type": "Normal"}
    live = {**inference_deployment(), **RAW, "status": report_of(state).status.dump()}
    return {
        **checked,
        INFERENCE_DEPLOYMENT.plural: [live],
        POD.plural: [
            with_ports(pod(name="qwen-engine-a", status=ready_pod()), "http"),
            crashing("qwen-engine-b"),
            with_ports(pod(name="qwen-router-a", component=ROUTER, status=ready_pod()), "metrics", "metrics-1"),
            with_ports(pod(name="of-a-job", component="job", status=ENDED, age=timedelta())),
        ],
        EVENT.plural: [{"metadata": {"name": "a", "namespace": "default"}, "involvedObject": {"uid": UID}, **event}],
        NODE.plural: [H100],
        MODEL_GATEWAY.plural: [gateway(reason="NameRefused")],
        CONFIG_MAP.plural: [model_known(RAW), named("models-models", "default", data={ADVERTISED: NAMES})],
        CLAIM.plural: [named("models", "default", spec={"accessModes": ["ReadWriteOnce"]})],
        DEPLOYMENT.plural: [operator()],
        MUTATING_WEBHOOKS.plural: [named("old", webhooks=[POD_HOOK])],
        JOB.plural: [],
        "statefulsets": [],
    }


ENDED = {"containerStatuses": [{"name": "job", "state": {"terminated": {"exitCode": 1, "message": "It failed."}}}]}
QWEN = json.dumps(inference_deployment())
CALLS: dict[str, list[tuple[str, ...]]] = {
    "run": [("qwen", "Qwen/Qwen3-8B", "--timeout=0", "--namespace=default")],
    "list": [(), ("-A",), ("-o", "json"), ("--traffic",), ("--traffic", "qwen")],
    "status": [("qwen",), ("qwen", "--why"), ("qwen", "-o", "json")],
    "chat": [("qwen", "Hi", "--timeout=0")],
    "ui": [("qwen", "--port=65536")],
    "gateway": [("list",), ("list", "-A"), ("status", "models"), ("chat", "models", "qwen", "Hi", "--timeout=0")],
    "bench": [("qwen", "--yes")],
    "drill": [("qwen", "--yes", "--faults=delete-engine", "--for=1s", "--heal-timeout=1s")],
    "logs": [("qwen", "-v"), ("qwen", "--previous"), ("qwen", "--router")],
    "plan": [("-f", "-", "--cluster"), ("-f", "-", "--cluster", "-v"), ("-f", "-", "--diff"), ("qwen",)],
    "cache": [("list",), ("list", "-A"), ("prune", "models"), ("prefetch", "hf://a/b", "--claim=models")],
    "pause": [("qwen",)],
    "resume": [("qwen",)],
    "restart": [("qwen", "--timeout=0"), ("qwen", "--routers", "--timeout=0")],
    "renew": [("qwen", "--timeout=0"), ("--all-namespaces", "--timeout=0")],
    "doctor": [("-n", "team-a"), ("-o", "json")],
    "support-bundle": [("qwen", "--dry-run")],
}
"""The arguments of each command that reads a cluster."""
WITHOUT_CLUSTER = {
    "arguments",
    "render",
    "fit",
    "inspect",
    "download",
    "prune",
    "import",
    "completion",
    "key",
    "crd",
    "policy",
}
"""Commands that print what files, hubs and their own user say."""


def test_every_command_that_reads_a_cluster_is_tried() -> None:
    assert CALLS.keys() | WITHOUT_CLUSTER == COMMANDS.keys()


@pytest.fixture
def attacked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[Hostile]]:
    """An API server that attacks, which the kubeconfig names."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)  # each command would read all certificates of the system
    for waits in ("status.command.BETWEEN_SECONDS", "cluster_command.POLL_SECONDS"):
        monkeypatch.setattr(f"inference_operator.cli.{waits}", 0.01)
    Hostile.everywhere, Hostile.code = False, 0
    with serving(Hostile, tmp_path / "config"):
        yield Hostile


AT_ONCE = {"waits": ChatWaits(0.01, 0.01, 0.01, 0.01)}


def attacks(infd: Infd, command: str, *arguments: str) -> list[str]:
    at_once: dict[str, Mapping[str, object]] = {
        "pause": {"timeout": 0},
        "resume": {"timeout": 0},
        "chat": AT_ONCE,
        "gateway": AT_ONCE,
    }
    _, said, complaints = infd(command, *arguments, stdin=QWEN, **at_once.get(command, {}))
    assert "Traceback" not in complaints
    return [f"{command} {arguments}: {line!r}" for line in (said + complaints).split("\n") if CONTROL.search(line)]


@pytest.mark.parametrize("command", CALLS)
@pytest.mark.parametrize("everywhere", [False, True], ids=["free texts", "all texts"])
def test_no_text_of_a_cluster_brings_a_control_character(
    infd: Infd, attacked: type[Hostile], command: str, *, everywhere: bool
) -> None:
    attacked.everywhere = everywhere
    attacked.kinds = cluster("engine refuses its configuration")
    assert not [line for call in CALLS[command] for line in attacks(infd, command, *call)]


def test_a_live_screen_has_only_the_styles_and_moves_of_its_own() -> None:
    text = io.StringIO()
    to = Console(file=text, width=80, force_terminal=True, color_system="standard", highlight=False)
    with Live(console=to, auto_refresh=False, screen=True) as shown:
        shown.update(Harmless(Text(f"first{ATTACK}last", style="red")), refresh=True)
    assert "\x1b[31mfirst" in text.getvalue()
    drawn = text.getvalue().partition("first")[2].partition("last")[0]
    assert not CONTROL.search(drawn), repr(drawn)


@pytest.mark.parametrize("command", CALLS)
def test_no_refusal_of_an_api_server_does(infd: Infd, attacked: type[Hostile], command: str) -> None:
    attacked.everywhere = True
    for attacked.code in (403, 409, 422, 500):
        assert not [line for call in CALLS[command] for line in attacks(infd, command, *call)]
