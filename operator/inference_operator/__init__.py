"""A Kubernetes operator for inference services: decide in pure functions, then do.

The packages, in eight groups, from the top layer to the lowest. A package imports only what comes after it; packages
with `|` between them do not import each other (docs/explanation/architecture.md, section 3).

1. entry points: cli | app
2. network: kube | scrape | model_files | telemetry
3. controller: controller
4. decision and report: status > pipeline
5. features: workload | router | jobs | planning | autoscaling | admission > roles | fleet
6. shared by features: diagnosis | objects > engines
7. sizing: sizing > models | hardware
8. types: views > settings > api > manifest | backoff | chain | non_defaults | quantity | sentences | units
"""

__version__ = "0.1.0"
