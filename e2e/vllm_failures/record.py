# noqa: INP001 (a script for the image, no module of this package)
"""Runs inside the engine's image: lets vLLM fail in every way that a CPU allows, and start, and keeps what it says.

python record.py MODEL OUTPUT [CASE ...]
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

LINES = 500
"""As many as the operator reads of a log."""
SECONDS = 900
"""Longer than a start takes on two busy cores; what has not failed by then has started."""

Edit = Callable[[Path], None]


def configured(**values: object) -> Edit:
    """The model with other values in its configuration."""

    def edit(model: Path) -> None:
        path = model / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return edit


def without(*names: str) -> Edit:
    """The model without some of its files."""

    def edit(model: Path) -> None:
        for name in names:
            (model / name).unlink()

    return edit


def with_file(name: str, content: bytes) -> Edit:
    """The model with a file of this content."""

    def edit(model: Path) -> None:
        (model / name).write_bytes(content)

    return edit


@dataclass(frozen=True)
class Case:
    """One way to fail, or to start."""

    args: Sequence[str] = ()
    model: str = "/tmp/model"  # noqa: S108 - in a container of its own
    edit: Edit | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    hub: tuple[int, str] | None = None
    """What a hub on this machine answers to everything: a status and an error code."""
    starts: bool = False
    """Whether it is to start instead; it is ended when it has."""
    compiles: bool = False
    """Whether it compiles the model, for which the image needs a C++ compiler."""


LONG = configured(max_position_embeddings=1 << 20)
CUSTOM = {"auto_map": {"AutoConfig": "configuration_x.XConfig"}, "model_type": "x"}
HUB = "nobody/private-8b"

CASES = {
    "heads-not-divisible": Case(["--tensor-parallel-size=3"]),
    "length-beyond-model": Case(["--max-model-len=999999"]),
    "length-beyond-cache": Case(["--kv-cache-memory-bytes=64M"], edit=LONG),
    "no-room-for-cache": Case(["--kv-cache-memory-bytes=1"]),
    "memory-beyond-node": Case(["--kv-cache-memory-bytes=900G"]),
    "utilization-beyond-free": Case(["--gpu-memory-utilization=1.0"]),
    "unknown-architecture": Case(edit=configured(architectures=["NosuchForCausalLM"])),
    "unknown-model-type": Case(edit=configured(model_type="nosuch", architectures=["NosuchForCausalLM"])),
    "unknown-quantization": Case(["--quantization=nosuch"]),
    "quantization-of-another": Case(["--quantization=gptq"]),
    "quantization-not-on-device": Case(
        edit=configured(quantization_config={"quant_method": "fbgemm_fp8", "activation_scale_ub": 1.0})
    ),
    "unknown-dtype": Case(["--dtype=float4"]),
    "dtype-not-on-device": Case(["--kv-cache-dtype=nvfp4"]),
    "no-such-path": Case(model="/models/nosuch"),
    "empty-folder": Case(edit=without("config.json", "model.safetensors")),
    "no-weights": Case(edit=without("model.safetensors")),
    "broken-weights": Case(edit=with_file("model.safetensors", b"\xff" * 4096)),
    "weights-of-another": Case(edit=configured(hidden_size=256, head_dim=64)),
    "no-tokenizer": Case(edit=without("tokenizer.json", "tokenizer_config.json")),
    "broken-config": Case(edit=with_file("config.json", b'{"architectures": ')),
    "custom-code": Case(edit=configured(**CUSTOM)),
    "unknown-argument": Case(["--nosuch-flag=1"]),
    "ambiguous-argument": Case(["--max-num=1"]),
    "bad-value": Case(["--max-num-seqs=many"]),
    "port-is-an-address": Case(env={"VLLM_PORT": "tcp://10.96.0.12:8000"}),
    "hub-offline": Case(model=HUB, env={"HF_HUB_OFFLINE": "1"}),
    "hub-unreachable": Case(model=HUB, env={"HF_ENDPOINT": "http://127.0.0.1:9"}),
    "hub-gated": Case(model=HUB, hub=(403, "GatedRepo")),
    "hub-gated-no-token": Case(model=HUB, hub=(401, "GatedRepo")),
    "hub-not-found": Case(model=HUB, hub=(401, "RepoNotFound")),
    "hub-bad-token": Case(model=HUB, hub=(401, "")),
    "hub-busy": Case(model=HUB, hub=(429, "")),
    "no-compiler": Case(["--kv-cache-memory-bytes=64M"], env={"PATH": "/opt/vllm/bin"}, compiles=True),
    "start": Case(["--kv-cache-memory-bytes=64M"], starts=True),
}

STARTED = b"Application startup complete."


def main() -> None:
    """Record the cases named, or all."""
    model, output, names = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] or list(CASES)
    for name in names:
        said, code = recorded(CASES[name], model)
        if (code is None) is not CASES[name].starts:
            print(f"{name}: exit code {code}, which is not what it is for", flush=True)
            continue
        print(f"{name}: exit code {code}", flush=True)
        (output / f"{name}.txt").write_text("\n".join(said.splitlines()[-LINES:]) + "\n")


def recorded(case: Case, model: Path) -> tuple[str, int | None]:
    """What vLLM says, and its exit code; None where it goes on."""
    copy = Path("/tmp/model")  # noqa: S108 - in a container of its own
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(model, copy)
    if case.edit:
        case.edit(copy)
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOME": home, "VLLM_NO_USAGE_STATS": "1", "USER": "vllm", **case.env}
        if case.hub:
            environment["HF_ENDPOINT"] = hub(*case.hub)
        eager = () if case.compiles else ("--enforce-eager",)
        return _run(["vllm", "serve", case.model, *eager, f"--port={_free_port()}", *case.args], environment)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[str, int | None]:
    """What is said until it ends, has started, or has had its time."""
    with tempfile.NamedTemporaryFile() as said:
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=said, start_new_session=True)
        last = time.monotonic() + SECONDS
        while process.poll() is None and time.monotonic() < last and STARTED not in Path(said.name).read_bytes():
            time.sleep(1)
        code = process.poll()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        said.seek(0)
        return said.read().decode(errors="replace"), code


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def hub(status: int, code: str) -> str:
    """The address of a hub that gives one answer to everything."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("X-Error-Code", code) if code else None
            message = "Invalid credentials in Authorization header" if not code else "no"
            self.send_header("X-Error-Message", message)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET  # noqa: N815 - the base class's names

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


if __name__ == "__main__":
    main()
