"""InferenceDeployments with fake or simulated engines: they start in a second and need little CPU."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from e2e import simulator
from e2e.deploy import stack
from e2e.helpers.served_deployment import Served

SCRIPT = Path(__file__).with_name("fake_engine.py")
PACKAGES = "/opt/vllm/lib/python3.13/site-packages"
PACKAGE = f"{PACKAGES}/vllm/__init__.py"
"""vLLM's package in the image `engine-cpu`."""
SIMULATOR = Path(simulator.__file__).parent
RUN_SIMULATOR = """import asyncio, sys
from e2e.simulator.__main__ import serve
asyncio.run(serve(sys.argv[2:]))
sys.exit()
"""


@contextmanager
def resource_of_stand_ins(
    served: Served,
    *,
    replicas: int,
    router: Mapping[str, object] | None = None,
    max_num_seqs: int | None = None,
    more: Mapping[str, Any] | None = None,
    simulated: bool = False,
) -> Iterator[None]:
    """Such a resource for the block; returns at once, before anything of it runs.

    Args:
        served: its name and cluster.
        replicas: of its engines.
        router: fields of `spec.router`.
        max_num_seqs: of an engine; None: that of the sample.
        more: other fields of the spec; those of `engine` and `podTemplate` are added to those of fake engines.
        simulated: whether `e2e.simulator` answers, as vLLM does, and not the fake.
    """
    name = served.name
    served.await_left()
    files = [f"--from-file={SIMULATOR}", f"--from-literal=run.py={RUN_SIMULATOR}"] if simulated else []
    served.kubectl("create", "configmap", name, *(files or [f"--from-file=run.py={SCRIPT}"]))
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
            {"name": "stand-in", "mountPath": PACKAGE, "subPath": "run.py"},
            *([{"name": "stand-in", "mountPath": f"{PACKAGES}/e2e/simulator"}] if simulated else []),
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
