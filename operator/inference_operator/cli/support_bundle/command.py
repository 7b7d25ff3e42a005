"""`infd support-bundle`: lists what it will write, and writes one archive. Secrets are never asked for."""

import argparse
import asyncio
import io
import json
import os
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import yaml

from inference_operator import __version__
from inference_operator.cli.cluster_command import ClusterCommand, is_agreed, list_objects, live_of
from inference_operator.cli.doctor import HUB, kinds
from inference_operator.cli.doctor.command import findings
from inference_operator.cli.doctor.facts import ClusterFacts, Unseen, labels_of, name_of
from inference_operator.cli.doctor.probe import probe_pod
from inference_operator.cli.doctor.reading import ClusterReader
from inference_operator.cli.output import print_found, table
from inference_operator.cli.parser import RefusedError, UsageError
from inference_operator.cli.support_bundle.hiding import shown_object
from inference_operator.controller.cluster import ClusterError, ForbiddenError, NotFoundError
from inference_operator.engines.registry import ENGINES, EngineRegistry
from inference_operator.kube.cluster import KubeCluster
from inference_operator.kube.lookup_listings import EVENT
from inference_operator.manifest import CONFIG_MAP, DEPLOYMENT, INFERENCE_DEPLOYMENT, NODE, POD, Kind, Manifest, Ref
from inference_operator.objects.names import COMPONENT_LABEL, NAME_LABEL, PROGRAM
from inference_operator.views.raw import mapping, objects
from inference_operator.views.redact import redacted
from inference_operator.views.untrusted_text import log_tail

READABLE_BY_OWNER = 0o600
"""Mode of the file: logs may have prompts in them."""


@dataclass(frozen=True, slots=True)
class BundleFile:
    path: str
    text: str

    @property
    def size(self) -> int:
        return len(self.text.encode(errors="replace"))


def packed(members: Sequence[BundleFile], folder: str) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for member in members:
            content = member.text.encode(errors="replace")
            head = tarfile.TarInfo(f"{folder}/{member.path}")
            head.size, head.mode = len(content), READABLE_BY_OWNER
            archive.addfile(head, io.BytesIO(content))
    return written.getvalue()


def write(path: Path, content: bytes) -> None:
    """Write a new file that only its owner may read; raises `UsageError` if it exists, or cannot be written."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, READABLE_BY_OWNER)
    except FileExistsError as error:
        raise UsageError(f"{path}: exists already. Choose another name with --file.") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise UsageError(f"{path}: {error.strerror}.") from error


LOG_LINES = 500
LOG_BYTES = 1_000_000
"""Bytes of each log: a bundle of twenty pods can be sent by mail."""
NODE_PARTS = ("allocatable", "capacity", "conditions", "nodeInfo")
"""Of a node's status; its addresses are left out."""


@dataclass(frozen=True, slots=True)
class BundleReader:
    _cluster: KubeCluster
    _namespace: str
    _name: str
    _engines: EngineRegistry
    _members: list[BundleFile] = field(default_factory=list)
    _unseen: list[str] = field(default_factory=list)

    async def members(self) -> Sequence[BundleFile]:
        facts = await ClusterReader(self._cluster, self._namespace).facts(lambda seen: probe_pod(seen, HUB))
        self._add("versions.txt", f"infd {__version__}\nKubernetes {facts.version}\n")
        found = [asdict(one) for one in findings(facts, self._engines)]
        self._add("doctor.json", json.dumps([shown_object(one) for one in found], indent=2))
        await self._resources()
        await self._operator(facts)
        self._nodes(facts)
        missing = [one.right for one in map(facts.of, kinds.OF_CLUSTER) if isinstance(one, Unseen)]
        self._add("unseen.txt", "\n".join(dict.fromkeys([*self._unseen, *missing])))
        return sorted(self._members, key=lambda one: one.path)

    def _add(self, path: str, text: str) -> None:
        if text.strip():
            self._members.append(BundleFile(path, redacted(text)))

    def _dump(self, path: str, manifest: Manifest) -> None:
        self._members.append(BundleFile(path, yaml.safe_dump(shown_object(manifest), sort_keys=False, width=1000)))

    async def _list(self, kind: Kind, namespace: str, labels: str | None = None) -> Sequence[Manifest]:
        """The objects of a kind; none, with a note, if they may not be listed."""
        try:
            return await list_objects(self._cluster, kind, namespace, labels)
        except NotFoundError:
            return ()
        except ForbiddenError as error:
            self._unseen.append(error.cause)
            return ()

    async def _resources(self) -> None:
        selector = f"{NAME_LABEL}={self._name}" if self._name else NAME_LABEL
        for one in await self._list(INFERENCE_DEPLOYMENT, self._namespace):
            if self._name in {"", name_of(one)}:
                self._dump(f"resources/{name_of(one)}.yaml", one)
        for kind in kinds.LABELLED:
            for one in await self._list(kind, self._namespace, selector):
                if not (kind == CONFIG_MAP and labels_of(one).get(COMPONENT_LABEL) == PROGRAM):
                    self._dump(f"objects/{kind.name.lower()}-{name_of(one)}.yaml", one)
        await self._pods("pods", self._namespace, selector)
        await self._events("events.yaml", self._namespace, self._name)

    async def _operator(self, facts: ClusterFacts) -> None:
        """The Deployment of each operator with its settings, pods, logs, and the Events of its namespace."""
        seen: set[str] = set()
        for one in facts.seen(DEPLOYMENT):
            namespace = str(mapping(one, "metadata").get("namespace"))
            folder = f"operator/{namespace}"
            self._dump(f"{folder}/deployment-{name_of(one)}.yaml", one)
            chosen = mapping(one, "spec", "selector", "matchLabels")
            labels = ",".join(f"{key}={value}" for key, value in chosen.items())
            if labels:
                await self._pods(f"{folder}/pods", namespace, labels)
            if namespace not in seen:
                await self._events(f"{folder}/events.yaml", namespace)
            seen.add(namespace)

    async def _pods(self, folder: str, namespace: str, labels: str) -> None:
        for pod in await self._list(POD, namespace, labels):
            self._dump(f"{folder}/{name_of(pod)}/pod.yaml", pod)
            status = mapping(pod, "status")
            for part in ("initContainerStatuses", "containerStatuses"):
                for state in objects(status, part):
                    await self._logs(f"{folder}/{name_of(pod)}", namespace, name_of(pod), state)

    async def _logs(self, folder: str, namespace: str, pod: str, state: Manifest) -> None:
        name, path = str(state.get("name") or ""), f"{Ref(POD, namespace, pod).path}/log"
        window = {"tailLines": str(LOG_LINES), "limitBytes": str(LOG_BYTES), "timestamps": "true"}
        for run in ("", "previous") if state.get("restartCount") else ("",):
            query = {"container": name, **window, **({run: "true"} if run else {})}
            try:
                log = await self._cluster.api.text(path, POD, query=query)
            except ForbiddenError as error:
                self._unseen.append(error.cause)
            except ClusterError:  # no log, or no kubelet that answers
                continue
            else:
                text = log_tail(log, lines=LOG_LINES, size=LOG_BYTES, characters=LOG_BYTES)
                self._add(f"{folder}/{name}{f'.{run}' if run else ''}.log", text)

    async def _events(self, path: str, namespace: str, name: str = "") -> None:
        """The Events of a namespace; with a name those of one resource, whose objects have names that begin with it."""
        if wanted := [one for one in await self._list(EVENT, namespace) if _is_about(one, name)]:
            self._dump(path, {"items": [{key: one[key] for key in one if key != "metadata"} for one in wanted]})

    def _nodes(self, facts: ClusterFacts) -> None:
        nodes = [
            {
                "name": name_of(one),
                "labels": labels_of(one),
                "taints": mapping(one, "spec").get("taints") or [],
                **{part: mapping(one, "status").get(part) for part in NODE_PARTS},
            }
            for one in facts.seen(NODE)
        ]
        if nodes:
            self._dump("nodes.yaml", {"nodes": nodes})


def _is_about(event: Manifest, name: str) -> bool:
    about = str(mapping(event, "involvedObject").get("name") or "")
    return not name or about == name or about.startswith(f"{name}-")


def run(options: argparse.Namespace) -> int:
    may_ask = sys.stdin.isatty() and sys.stdout.isatty()
    if not (options.yes or options.dry_run or may_ask):
        raise UsageError("Without a terminal, add --yes to write, or --dry-run to see the list.")

    async def read(cluster: KubeCluster) -> Sequence[BundleFile]:
        if options.name:
            await live_of(cluster, options.namespace, options.name)
        reader = BundleReader(cluster, options.namespace, options.name, options.engines or ENGINES)
        return await reader.members()

    members = ClusterCommand(options).run(read)
    stem = f"infd-support-{options.namespace}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    path = options.file or Path(f"{stem}.tar.gz")
    lines = table([("FILE", "BYTES"), *((one.path, f"{one.size:,}") for one in members)])
    print_found([{"path": one.path, "bytes": one.size} for one in members], options.output, lines)
    if options.dry_run:
        return 0
    if not options.yes and not asyncio.run(is_agreed(f"Write {path}?")):
        raise RefusedError("Nothing was written.")
    write(path, packed(members, stem))
    print(f"{path}: {len(members)} files. Look through it before you send it.", file=sys.stderr)
    return 0
