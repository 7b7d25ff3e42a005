"""The preStop hook of a router: HAProxy is told to stop only when it holds no request without an engine.

A held request of a stopping HAProxy finds no engine that comes up later, and its connection is closed without an
answer at `hard-stop-after` (measured with HAProxy 3.0). So it stops after the held requests are served.
"""

from functools import cache
from importlib.resources import files

from inference_operator.router.haproxy import METRICS_PORT_VARIABLE
from inference_operator.router.stats import STATS_PATH
from inference_operator.router.waiting import HELD_PATH, HOOK_ADDRESS

ENDPOINT_REMOVAL_SECONDS = 10
"""How long a stopping router still accepts connections: until every kube-proxy has removed it, with a margin."""

_WITH_BASH = 'command -v bash > /dev/null || exec sleep "$1"; exec bash -c "$0" stop-hook "$@"'
"""Runs the script where the image has bash. Without it, held requests are not waited for, but endpoint removal is."""


def stop_hook(drain_seconds: int, endpoint_removal_seconds: int = ENDPOINT_REMOVAL_SECONDS) -> list[str]:
    """The hook's command.

    Args:
        drain_seconds: how long requests may be held; then they get 503 with Retry-After.
        endpoint_removal_seconds: how long to wait before that.
    """
    times = [str(endpoint_removal_seconds), str(drain_seconds)]
    arguments = [*times, METRICS_PORT_VARIABLE, HELD_PATH, STATS_PATH, HOOK_ADDRESS]
    return ["sh", "-c", _WITH_BASH, _script(), *arguments]


@cache
def _script() -> str:
    return files(__package__).joinpath("stop_hook.sh").read_text(encoding="utf-8")
