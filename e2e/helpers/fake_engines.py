"""InferenceDeployments with fake engines: they start in a second and need no CPU."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from e2e.deploy import stack
from e2e.helpers.served_deployment import Served

SCRIPT = Path(__file__).with_name("fake_engine.py")
PACKAGE = "/opt/vllm/lib/python3.13/site-packages/vllm/__init__.py"
"""vLLM's package in the image `engine-cpu`."""


@contextmanager
def resource_of_stand_ins(
    served: Served,
    *,
    replicas: int,
    router: Mapping[str, object] | None = None,
    max_num_seqs: int | None = None,
    more: Mapping[str, Any] | None = None,
) -> Iterator[None]:
    """Such a resource for the block; returns at once, before anything of it runs.

    Args:
        served: its name and cluster.
        replicas: of its engines.
        router: fields of `spec.router`.
        max_num_seqs: of an engine; None: that of the sample.
        more: other fields of the spec; those of `engine` and `podTemplate` are added to those of fake engines.
    """
    name = served.name
    served.await_left()
    served.kubectl("create", "configmap", name, f"--from-file=__init__.py={SCRIPT}")
    resource = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = name
    spec = resource["spec"]
    spec["replicas"] = replicas
    spec["engine"]["resources"] = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}}
    spec["engine"]["maxNumSeqs"] = max_num_seqs or spec["engine"]["maxNumSeqs"]
    asked = dict(more or {})
    added = asked.pop("podTemplate", {})
    spec["podTemplate"] = {
        **added,
        "volumes": [{"name": "stand-in", "configMap": {"name": name}}, *added.get("volumes", ())],
        "volumeMounts": [
            {"name": "stand-in", "mountPath": PACKAGE, "subPath": "__init__.py"},
            *added.get("volumeMounts", ()),
        ],
    }
    spec["engine"].update(asked.pop("engine", {}))
    spec.update(asked)
    spec["router"] = {**spec.get("router", {}), **(router or {})}
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))
    try:
        yield
    finally:
        served.leave()
        served.kubectl("delete", f"configmap/{name}")
