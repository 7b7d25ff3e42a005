"""The operator's own metrics, named after what controller-runtime calls its own."""

from prometheus_client import Counter, Gauge, Histogram

RECONCILES = Counter("infd_reconcile", "Rounds of reconciling, by result", ["result"])
RECONCILE_SECONDS = Histogram("infd_reconcile_duration_seconds", "Time of one round of reconciling")
API_REQUESTS = Counter(
    "infd_api_requests", "Requests to the API server, by verb, kind and answer", ["verb", "kind", "code"]
)
LEADER = Gauge("infd_leader", "1 while this process holds the Lease, 0 while it stands by")
QUEUE_DEPTH = Gauge("infd_workqueue_depth", "InferenceDeployments that wait to be looked at")
SCRAPES = Counter("infd_scrapes", "Looks at the metrics of pods, by component and result", ["component", "result"])
ENGINE_STALLS = Counter(
    "infd_engine_stalls",
    "Engines that had work, made no progress and did not answer for the operator's `stallSeconds`",
    ["namespace", "name"],
)
RESOURCES = Gauge("infd_resources", "InferenceDeployments that are known")
