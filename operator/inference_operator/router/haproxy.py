"""The files of a router's configuration. haproxy.cfg.j2 has parts, each with a module of its own for its values."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from jinja2 import Environment, PackageLoader, StrictUndefined

from inference_operator.api.router import RouterUsage
from inference_operator.quantity import value
from inference_operator.router import (
    adapters,
    affinity,
    body,
    clients,
    cors,
    dns,
    engine_key,
    entry,
    fairness,
    first_byte,
    gateway,
    gateway_key,
    headers,
    keys,
    limits,
    long_bodies,
    observe,
    paths,
    prefill,
    process,
    retries,
    servers,
    tls,
    waiting,
)
from inference_operator.router.error_response import INVALID, OF_HAPROXY, ErrorResponse
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.resources import threads
from inference_operator.router.stats import STATS_PATH


class _PartModule(Protocol):
    __name__: str

    def values(self, inputs: RouterInputs) -> Mapping[str, object] | None: ...


CONNECT_SECONDS = 4
"""`timeout connect`. The kernel repeats a lost SYN after one and after three seconds (tcp(7), `tcp_syn_retries`; the
initial timeout of RFC 6298). So two lost packets are no failed connection. A held request still retries each second:
HAProxy waits for the smaller one of this time and one second (3.0, src/backend.c, `back_handle_st_cer`)."""

CHECK_SECONDS = 120
"""`timeout check`: how long `/health` may take. A busy vLLM answers after 20 to 40 s (vllm-project/vllm#38157)."""

CLOSE_SPREAD_SECONDS = 3
"""A stopping HAProxy closes the connections of clients within this time: as many as possible with `Connection: close`
in an answer, the rest while they are idle."""

_LENGTH_REQUIRED = ErrorResponse(411, INVALID, "length_required", "the request must have the header Content-Length")

_TEMPLATES = Environment(
    loader=PackageLoader(__package__, "."),
    undefined=StrictUndefined,
    auto_reload=False,  # each rendering would look whether one of the templates has changed
    keep_trailing_newline=True,
    autoescape=False,  # noqa: S701 - a configuration file, not HTML
)
_PARTS: Sequence[_PartModule] = [
    *(adapters, affinity, body, clients, cors, dns, engine_key, entry, fairness, first_byte, gateway, gateway_key),
    *(headers, keys, limits, long_bodies, observe, paths, prefill, retries, servers, tls, waiting),
]
_COPIED = (
    *("metrics.lua", "usage.lua", "adapters.lua", "adapters.map", "affinity.lua", "engine_key.lua", "engine_key.map"),
    *("entry.lua", "peers.lua", "gateway.lua", "gateway_key.lua", "gateway_key.map", "keys.lua", "keys.map"),
    *("limits.lua", "tls.lua", "fairness.map", "hold.lua"),
)
"""Files that are the same for all routers. Each is used with the part of its name, if nothing else is said."""
_ROUTER, _GATEWAY = (_TEMPLATES.get_template(name) for name in ("haproxy.cfg.j2", "gateway.cfg.j2"))


def config_files(inputs: RouterInputs) -> dict[str, str]:
    parts = {module.__name__.rpartition(".")[2]: _part(module, inputs) for module in _PARTS}
    used = {
        "metrics.lua": True,
        "usage.lua": inputs.spec.usage is RouterUsage.ENABLED,
        **dict.fromkeys(("entry.lua", "fairness.map", "hold.lua"), not inputs.is_gateway),
        "peers.lua": not inputs.is_gateway or parts["limits"],
    }
    copied = {name: used[name] if name in used else parts[name.partition(".")[0]] for name in _COPIED}
    texts = {name: process.script(name) for name, is_used in copied.items() if is_used}
    template = _GATEWAY if inputs.is_gateway else _ROUTER
    return {process.CONFIG_FILE: template.render(_values(inputs), **parts), **texts}


def haproxy_cfg(inputs: RouterInputs) -> str:
    return config_files(inputs)[process.CONFIG_FILE]


def _part(module: _PartModule, inputs: RouterInputs) -> Mapping[str, object] | None:
    """The values of a part, with the constants of its module by their names in lower case; None if it is not used.

    Its script and its map have its name.
    """
    own, path = module.values(inputs), f"{process.CONFIG_FOLDER}/{module.__name__.rpartition('.')[2]}"
    constants = {name.strip("_").lower(): constant for name, constant in vars(module).items() if name.isupper()}
    return None if own is None else {"lua": f"{path}.lua", "map": f"{path}.map", **constants, **own}


def _values(inputs: RouterInputs) -> Mapping[str, object]:
    spec = inputs.spec
    max_body_bytes = int(value(spec.max_body_size)) if spec.max_body_size else 0
    too_large = f"the body of a request may have at most {max_body_bytes} bytes"
    return {
        "port": process.PORT,
        "metrics_port": f'"{process.expanded(process.METRICS_PORT_VARIABLE)}"',
        "pod_ips": process.expanded(process.POD_IPS_VARIABLE),
        "health_path": process.HEALTH_PATH,
        "stats_path": STATS_PATH,
        "connect_seconds": CONNECT_SECONDS,
        "check_seconds": CHECK_SECONDS,
        "drain_seconds": inputs.drain_seconds,
        "close_spread_ms": 1000 * min(2 * CLOSE_SPREAD_SECONDS, inputs.drain_seconds) // 2,
        "threads": threads(spec.resources),
        "max_body_bytes": max_body_bytes,
        "too_large": ErrorResponse(413, INVALID, "request_too_large", too_large),
        "length_required": _LENGTH_REQUIRED,
        "errors": OF_HAPROXY,
    }
