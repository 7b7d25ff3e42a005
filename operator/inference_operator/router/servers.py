"""The servers of the upstreams, as HAProxy balances requests over them: the values of servers.cfg.j2.

All of them are in one backend: one queue, one rule for held requests, one count. So it is as with one upstream.
Headers are set before HAProxy chooses a server, so all servers get the Host of the first upstream.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inference_operator.router.inputs import RouterInputs, Upstream
from inference_operator.router.retries import AGAIN_ADDRESS, GATE_ADDRESS, SILENT_SECONDS

CHECK_INTERVAL_SECONDS = 5
"""Between two checks of an engine that is up. It also limits the connection of a check, so it exceeds
`CONNECT_SECONDS` (HAProxy 3.0, `timeout check`)."""

CHECK_FAILURES = 3
"""Failed checks in a row after which an engine is down. Failed connections of requests tell faster."""

FULL_WEIGHT = 64
"""Weight of a server, and of the heaviest one of several upstreams: the hash ring of `PrefixAffinity` has a number of
points for each that grows with it (HAProxy 3.0, src/lb_chash.c)."""


@dataclass(frozen=True, slots=True)
class Servers:
    prefix: str
    """Their names are this and a number."""
    address: str
    options: str = ""
    """The differences from the servers of the first upstream."""


def values(inputs: RouterInputs) -> Mapping[str, object]:
    first = inputs.upstreams[0]
    return {
        "again_address": f'"{AGAIN_ADDRESS}"',
        "all": servers(inputs.upstreams),
        "slots": inputs.slots,
        **_checks(inputs.upstreams),
        "max_connections": first.max_concurrency,
        "gate_address": f'"{GATE_ADDRESS}"',
        "host": first.host,
        "silent_seconds": SILENT_SECONDS,
    }


def servers(upstreams: Sequence[Upstream]) -> Sequence[Servers]:
    """The servers of each upstream. Each weighs at least 1: HAProxy sends nothing to a server of weight 0."""
    if len(upstreams) == 1:
        return [Servers("e", f"{upstream.host}:{upstream.port}") for upstream in upstreams]
    heaviest = max(upstream.weight for upstream in upstreams)
    return [
        Servers(
            _prefix(upstream),
            f"{upstream.host}:{upstream.port}",
            f" weight {max(1, round(FULL_WEIGHT * upstream.weight / heaviest))} maxconn {upstream.max_concurrency}",
        )
        for upstream in upstreams
    ]


def _checks(upstreams: Sequence[Upstream]) -> Mapping[str, str]:
    if len(upstreams) == 1:
        return {"check_uri": f"uri {upstreams[0].health_path}", "check_host": upstreams[0].host}
    return {
        "check_uri": f"uri-lf {_by_server({_prefix(upstream): upstream.health_path for upstream in upstreams})}",
        "check_host": _by_server({_prefix(upstream): upstream.host for upstream in upstreams}),
    }


def _prefix(upstream: Upstream) -> str:
    """Start of the names of an upstream's servers. Neither a DNS name nor a path has its underscore."""
    return f"{upstream.name}_"


def _by_server(texts: Mapping[str, str]) -> str:
    """A HAProxy log-format string: a text for each upstream, chosen by the name of the server that is checked.

    Examples:
        >>> _by_server({"engine_": "/health", "helper_": "/alive"})
        '%[srv_name,regsub(^engine_.*,/health),regsub(^helper_.*,/alive)]'
    """
    return f"%[srv_name,{','.join(f'regsub(^{prefix}.*,{text})' for prefix, text in texts.items())}]"
