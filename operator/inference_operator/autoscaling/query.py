"""The target-utilization law: a PromQL query for the number of engines, by which the backends `HPA` and `KEDA` decide.

With `BuiltIn` the operator decides by the square-root staffing law of `decision.py`, which gives another number for the
same demand: there a backlog is worked off within 5 s and growth counts. A query has only what Prometheus has scraped,
at intervals of up to a minute, so here 15 % of the capacity stay free, and a backlog is worked off within 30 s.
docs/explanation/autoscaling.md measures both.
"""

from inference_operator.engines.telemetry import EngineSeries
from inference_operator.manifest import Key
from inference_operator.objects.names import ROUTER, workload_name

QUEUED = "inference_operator_router_queued_requests"
HELD = "inference_operator_router_held_requests"
RUNNING = "inference_operator_router_running_requests"
"""Requests of a HAProxy process; the last one has a series for each engine. Sessions of its backend are more: a request
that loses its last engine passes through the backend twice (`router/retries.cfg.j2`)."""

ACTIVE = "haproxy_backend_active_servers"
"""Engines to which a HAProxy process sends requests; of all processes the largest number is the best known."""

BACKEND = "engines"
"""The backend of the routers that sends requests to engines (`router/haproxy.cfg.j2`)."""

UTILIZATION = 0.85
"""Part of the target concurrency at which an engine runs while there is no backlog. The rest takes short peaks. In
simulations of public traces (`bench/autoscaling.py`) this part needed the fewest GPU-hours."""

DRAIN_SECONDS = 30
"""Time within which new engines should have worked off a backlog."""

TEMPLATE_HASH = 10
"""Most characters of the hash of a pod template in the name of a pod: a number of 32 bits, encoded."""

GENERATED_FROM = 58
"""Characters of a name to which the API server adds five (Kubernetes 1.36, apiserver/pkg/storage/names/generate.go)."""

RATE_WINDOW = "2m"
"""Window of the mean time of a request: at least two samples of a scrape interval of up to 60 s."""


def engines_query(
    key: Key,
    role: str,
    target: float,
    *,
    bypasses_routers: bool,
    metrics: EngineSeries,
    least_seconds: float = 0.0,
    has_groups: bool = False,
) -> str:
    """The number of engines that the demand needs, as a query with one value; no value without metrics of requests.

    There are O outstanding requests and n engines. An engine should have C requests, and a request takes S seconds.
    The sum of two terms is divided by C. The level is what n engines serve of O, divided by the utilization. The
    backlog is max(0, O - C n), as far as it would not be over within `DRAIN_SECONDS` anyway. Waiting requests count
    only within the backlog.

    Where prompts bind C, the level is at least what engines finish in a second times S at C: requests in an engine are
    few until it has no time left, as rule 3 of `decision.py` says.

    An engine without series counts if a router sends it requests. One that does not count what it has finished takes
    `DRAIN_SECONDS` for a request.

    The number is absolute. It does not contain the number of replicas, so nothing compounds while engines start.

    Args:
        least_seconds: S at the target where prompts bind it, else zero.
        has_groups: whether an engine is a group of pods; the first one of each has the series.
    """
    routers = f'{{{_pods(key, ROUTER)},proxy="{BACKEND}"}}'
    queued, held, sent = (f"sum({name}{{{_pods(key, ROUTER)}}})" for name in (QUEUED, HELD, RUNNING))
    outstanding = f"({queued} + {held} + ({sent} or vector(0)))"
    engines, time, steady = f"max({ACTIVE}{routers})", f"vector({DRAIN_SECONDS})", ""
    if metrics.running:
        pods = _pods(key, role, has_groups=has_groups)
        names = filter(None, (metrics.running, metrics.waiting))
        running, *waiting = (f"{name}{{{pods}}}" for name in names)
        engines = f"count(count by (pod) ({running}))"
        if bypasses_routers:
            outstanding = f"({' + '.join(f'sum({series})' for series in (running, *waiting))})"
        if metrics.finished:
            finish_rate = f"(sum(rate({metrics.finished}{{{pods}}}[{RATE_WINDOW}])) > 0)"
            time = f"(sum(avg_over_time({running}[{RATE_WINDOW}])) / {finish_rate} or vector({DRAIN_SECONDS}))"
            steady = f"{least_seconds:g} * scalar({finish_rate} or vector(0))" if least_seconds else ""
    served = f"{target:g} * scalar({engines} or vector(0))"
    drained = f"clamp_max({time} / {DRAIN_SECONDS}, 1)"
    full = f"clamp_max({outstanding}, {served})"
    level = f"{f'clamp_min({full}, {steady})' if steady else full} / {UTILIZATION}"
    backlog = f"clamp_min({outstanding} - {served}, 0) * {drained}"
    return f"({level} + {backlog}) / {target:g}"


def _pods(key: Key, component: str, *, has_groups: bool = False) -> str:
    """The labels that select the pods of a Deployment, as a PodMonitor of Prometheus Operator writes them.

    A pod is named after its Deployment, with the hash of the template and five characters. The pattern is as narrow, so
    that the pods of another InferenceDeployment do not match. The API server cuts long names before the five
    characters. With groups, the first pods of their StatefulSets match too.

    Examples:
        >>> _pods(Key("a", "qwen"), "engine")
        'namespace="a",pod=~"qwen-engine-[a-z0-9]+-[a-z0-9]{5}"'
        >>> _pods(Key("a", "qwen"), "engine", has_groups=True)
        'namespace="a",pod=~"qwen-engine-([a-z0-9]+-[a-z0-9]{5}|[0-9]+-0)"'
    """
    start = f"{workload_name(key.name, component)}-"
    whole = len(start) + TEMPLATE_HASH + 1 <= GENERATED_FROM
    rest = f"{'[a-z0-9]+-' if whole else '[a-z0-9]*-?'}[a-z0-9]{{5}}"
    return f'namespace="{key.namespace}",pod=~"{start[:GENERATED_FROM]}{f"({rest}|[0-9]+-0)" if has_groups else rest}"'
