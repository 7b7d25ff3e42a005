"""Findings about nodes and pods: the device plugin, labels of GPUs, drivers, runtime classes, images, and the hub."""

import json
from collections.abc import Iterator, Sequence

from inference_operator.api.engine import EngineSpec
from inference_operator.api.explanations import EXPLANATIONS
from inference_operator.api.hardware import Device, HardwareSpec
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.cli.doctor import kinds
from inference_operator.cli.doctor.facts import ClusterFacts, Finding, Health, Unseen, name_of, unseen
from inference_operator.engines.registry import EngineRegistry
from inference_operator.hardware.needs import DRIVER_MAJOR
from inference_operator.hardware.node_labels import AWS_NAME, COREWEAVE, GKE, PRODUCT, kind_of_labels
from inference_operator.hardware.offers import offers_of_node
from inference_operator.hardware.resources import is_gpu
from inference_operator.manifest import INFERENCE_DEPLOYMENT, NODE, POD
from inference_operator.sentences import first_of
from inference_operator.settings import PREFIX, Settings
from inference_operator.views.node import NodeView, node_view
from inference_operator.views.raw import condition, mapping, objects
from inference_operator.views.untrusted_text import one_line

PRESENT = "nvidia.com/gpu.present"
"""Label of NVIDIA's GPU operator and of GPU feature discovery."""
MOST_NAMES = 3
NVIDIA = "nvidia"


def gpus(facts: ClusterFacts) -> Iterator[Finding]:
    found = facts.of(NODE)
    yield from unseen("GPUs", found)
    if isinstance(found, Unseen):
        return
    nodes = [node_view(one) for one in found]
    silent = [node for node in nodes if _should_have_gpus(node) and not _allocatable(node)]
    working = [node for node in nodes if _allocatable(node)]
    if silent:
        message = f"{_names(silent)} should have GPUs by labels, and offers none to pods."
        cure = "Install NVIDIA's device plugin or GPU operator, and read the log of its pod on that node."
        yield Finding("Device plugin", Health.BAD, message, cure)
    if not working:
        yield _no_gpus(facts, is_named=bool(silent))
        return
    total = sum(_allocatable(node) for node in working)
    yield Finding("GPUs", Health.GOOD, f"{total} GPUs on {len(working)} of {len(nodes)} nodes.")
    added = [label for label in facts.settings.get(f"{PREFIX}GPU_NODE_LABELS", "").split(",") if label]
    if nameless := [one for one in working if not offers_of_node(one.labels, one.allocatable, added)]:
        cure = "Install GPU feature discovery, or name the labels of your nodes in `settings.gpuNodeLabels`."
        yield Finding("GPU labels", Health.BAD, f"No label names the GPUs of {_names(nameless)}.", cure)
    else:
        yield Finding("GPU labels", Health.GOOD, "Labels name the GPUs of each node that has some.")


def _no_gpus(facts: ClusterFacts, *, is_named: bool) -> Finding:
    if facts.settings.get(f"{PREFIX}GPU_OFFERS"):
        text = "No node offers GPUs now; `settings.gpuOffers` declares those of nodes to come."
        return Finding("GPUs", Health.NOTE, text)
    cure = "Install NVIDIA's device plugin; for nodes that appear on demand set `settings.gpuOffers`."
    resources = facts.seen(INFERENCE_DEPLOYMENT)
    devices = ((one, mapping(one, "spec", "hardware").get("device")) for one in resources)
    wanting = sorted(name_of(one) for one, device in devices if (device or HardwareSpec().device) != Device.CPU)
    if not wanting:
        text = "No node offers GPUs now. Engines with `hardware.device: CPU` need none."
        return Finding("GPUs", Health.NOTE, text, cure)
    text = f"No node offers GPUs now, and {first_of(wanting, MOST_NAMES)} want some."
    return Finding("GPUs", Health.NOTE if is_named else Health.BAD, text, cure)


def driver(facts: ClusterFacts, engines: EngineRegistry) -> Iterator[Finding]:
    nodes = [node for one in facts.seen(NODE) if _allocatable(node := node_view(one))]
    if not nodes:
        return
    engine = engines[engines.default]
    image = facts.settings.get(f"{PREFIX}GPU_ENGINE_IMAGE") or engine.image(Device.GPU, Settings())
    needs = engine.gpu_needs(EngineSpec(), image)
    if not needs.driver:
        yield Finding("Driver", Health.UNKNOWN, f"No table says which driver the image {image} needs.")
    elif old := [node for node in nodes if needs.too_old(node.labels)]:
        message = (
            f"The image {image} has CUDA {needs.cuda} and needs driver {needs.driver}; {_names(old)} has an older one."
        )
        yield Finding("Driver", Health.BAD, message, needs.older_drivers)
    elif all(any(label in node.labels for label in DRIVER_MAJOR) for node in nodes):
        yield Finding("Driver", Health.GOOD, f"Each node has driver {needs.driver} or newer, for CUDA {needs.cuda}.")
    else:
        message = f"The image needs driver {needs.driver}, and some nodes have no label with their driver."
        yield Finding("Driver", Health.UNKNOWN, message, "GPU feature discovery labels nodes with it.")


def runtime_class(facts: ClusterFacts) -> Iterator[Finding]:
    found = facts.of(kinds.RUNTIME_CLASS)
    yield from unseen("Runtime class", found)
    if isinstance(found, Unseen):
        return
    present, named = {name_of(one) for one in found}, sorted(_named_classes(facts))
    for name in (one for one in named if one not in present):
        message = f"The runtime class `{name}` that engines name does not exist."
        cure = "Create it, or change `runtimeClassName` in `settings.engineDefaults` or `spec.scheduling`."
        yield Finding("Runtime class", Health.BAD, message, cure)
    if named and present >= set(named):
        yield Finding("Runtime class", Health.GOOD, f"Engines use {', '.join(f'`{one}`' for one in named)}.")
    elif not named and NVIDIA in present:
        message = "`nvidia` exists, and no engine names it. That is right where it is the nodes' default runtime."
        yield Finding("Runtime class", Health.NOTE, message, "k3s and RKE2: docs/how-to/platforms.md.")
    elif not named:
        yield Finding("Runtime class", Health.GOOD, "Engines use the nodes' default runtime.")


def _named_classes(facts: ClusterFacts) -> Iterator[str]:
    """The runtime classes that the administrator's defaults and the resources of the namespace name."""
    try:
        defaults = json.loads(facts.settings.get(f"{PREFIX}ENGINE_DEFAULTS") or "{}")
    except ValueError:
        defaults = {}
    specs = [mapping(one, "spec") for one in facts.seen(INFERENCE_DEPLOYMENT)]
    for one in (defaults if isinstance(defaults, dict) else {}, *specs):
        if name := mapping(one, "scheduling").get("runtimeClassName"):
            yield str(name)


def _should_have_gpus(node: NodeView) -> bool:
    return bool(
        node.labels.get(PRESENT) == "true"
        or any(label in node.labels for label in (PRODUCT, AWS_NAME, GKE, COREWEAVE))
        or kind_of_labels(node.labels)
    )


def _allocatable(node: NodeView) -> int:
    return sum(node.count(name) for name in node.allocatable if is_gpu(name))


def _names(nodes: Sequence[NodeView]) -> str:
    return ("node " if len(nodes) == 1 else "nodes ") + first_of([node.name for node in nodes], MOST_NAMES)


PULL_ERRORS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "RegistryUnavailable"})
"""Reasons of a waiting container (Kubernetes 1.36, `pkg/kubelet/images/types.go`)."""
PROBE = "Pod in the cluster"


def images(facts: ClusterFacts) -> Iterator[Finding]:
    yield from unseen("Image pull", facts.of(POD))
    failed = {
        str(state.get("image") or "?"): (name_of(pod), one_line(waiting.get("message")))
        for pod in facts.seen(POD)
        for part in ("initContainerStatuses", "containerStatuses")
        for state in objects(mapping(pod, "status"), part)
        if (waiting := mapping(state, "state", "waiting")).get("reason") in PULL_ERRORS
    }
    for image, (pod, message) in sorted(failed.items()):
        cure = EXPLANATIONS[Reason.IMAGE_PULL_FAILED].cure
        yield Finding("Image pull", Health.BAD, f"{pod} cannot pull {image}: {message}", cure)
    if (pods := facts.seen(POD)) and not failed:
        yield Finding("Image pull", Health.GOOD, f"None of {len(pods)} pods fails to pull its images.")


def hub(facts: ClusterFacts) -> Iterator[Finding]:
    resolved = [
        (name_of(one), condition(mapping(one, "status"), ConditionType.MODEL_RESOLVED))
        for one in facts.seen(INFERENCE_DEPLOYMENT)
    ]
    failed = [name for name, state in resolved if state.get("reason") == Reason.HUB_UNREACHABLE]
    if failed:
        message = f"Pods of {', '.join(failed)} do not reach the hub."
        yield Finding("Hub", Health.BAD, message, EXPLANATIONS[Reason.HUB_UNREACHABLE].cure)
    elif facts.probe is None:
        cure = "infd doctor --cluster asks the hub from a pod."
        yield Finding("Hub", Health.UNKNOWN, "No resource has reported whether pods reach the hub.", cure)


def probe(facts: ClusterFacts) -> Iterator[Finding]:
    found = facts.probe
    if found is None:
        return
    if found.problem:
        yield Finding(PROBE, Health.BAD, f"It did not run: {found.problem}", "kubectl get events shows more.")
        return
    yield Finding(PROBE, Health.GOOD, "It was scheduled, and its image was pulled.")
    if found.dns_error:
        cure = "Look at the pods of CoreDNS, and at NetworkPolicies that deny port 53."
        yield Finding("DNS from a pod", Health.BAD, f"It resolves no Service: {found.dns_error}.", cure)
    else:
        yield Finding("DNS from a pod", Health.GOOD, "It resolves Services.")
    if found.hub_error:
        cure = EXPLANATIONS[Reason.HUB_UNREACHABLE].cure
        yield Finding("Hub", Health.BAD, f"It does not reach the hub: {found.hub_error}.", cure)
    else:
        yield Finding("Hub", Health.GOOD, "It reaches the hub.")
