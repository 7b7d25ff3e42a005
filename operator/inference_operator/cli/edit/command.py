"""`infd pause`, `resume`, `restart` and `renew`: edits of resources, one after the other, each with its wait."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.cli.cluster_command import ClusterCommand, Step, none_of, resources, wait_until
from inference_operator.cli.edit.edits import EDITS, PARTS, Edit, Steps, is_paused
from inference_operator.cli.managed_fields import applied_edit
from inference_operator.cli.output import TABLES, dumped, progress_aside
from inference_operator.cli.parser import RefusedError, harmless
from inference_operator.controller.cluster import ConflictError, ForbiddenError, RejectedError
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Manifest, Ref


class NotEditedError(RefusedError):
    """A resource is left as it is. That says nothing about others."""


@dataclass(frozen=True, slots=True)
class Made:
    namespace: str
    name: str
    edit: str
    changed: bool
    message: str


def run(options: argparse.Namespace) -> int:
    edits = [edit for part, edit in EDITS[options.edit].items() if getattr(options, "part", None) in (None, part)]
    unsure = f"Interrupted. Perhaps nothing has changed: `infd status {options.name}` shows it."
    command = ClusterCommand(options, interrupted=edits[0].interrupted or unsure)
    made, failures = list[Made](), dict[str, None]()

    async def work(cluster: KubeCluster) -> int:
        tasks = [(ref, edit) for ref in await _chosen(cluster, options) for edit in edits]
        return await _Editor(command, options, cluster, made, failures).make(tasks)

    try:
        with progress_aside(options.output):
            status = command.run(work)
    finally:
        if options.output not in TABLES:
            print(dumped(made, options.output))
    if failures and options.output not in TABLES:
        raise RefusedError("\n".join(failures))
    return status


async def _chosen(cluster: KubeCluster, options: argparse.Namespace) -> Sequence[Ref]:
    found = await resources(cluster, options)
    if not found:
        print(none_of(INFERENCE_DEPLOYMENT, options))

    def order(live: Manifest) -> tuple[bool, str, str]:
        chosen = getattr(options, "part", None)
        vulnerable = any(part.is_vulnerable(live) for part in PARTS if chosen in (None, part.name))
        return not vulnerable, live["metadata"]["namespace"], live["metadata"]["name"]

    return [Ref.of(live) for live in sorted(found, key=order)]


@dataclass(slots=True)
class _Editor:
    command: ClusterCommand
    options: argparse.Namespace
    cluster: KubeCluster
    made: list[Made]
    failures: dict[str, None]
    """Messages; a resource that is paused or gone is so for both parts."""
    changed: bool = False

    async def make(self, tasks: Sequence[tuple[Ref, Edit]]) -> int:
        """Make one edit after the other. After a rollout that failed none is begun: it could fail likewise."""
        status = 0
        for number, (ref, edit) in enumerate(tasks):
            self.changed, failed = False, False
            try:
                message = await self._make(ref, edit)
                print(f"{_shown(ref)}: {message}", flush=True)
            except RefusedError as error:
                status, message, failed = error.status, str(error), not isinstance(error, NotEditedError)
                self._fail(f"{_shown(ref)}: {message}")
            self.made.append(Made(ref.namespace, ref.name, edit.what, self.changed, message))
            if failed:
                if left := ", ".join(f"{edit.what} of {_shown(ref)}" for ref, edit in tasks[number + 1 :]):
                    self._fail(f"Not renewed either: {left}.")
                break
        return status

    def _fail(self, message: str) -> None:
        if message not in self.failures and self.options.output in TABLES:
            print(harmless(message), file=sys.stderr)
        self.failures[message] = None

    async def _make(self, ref: Ref, edit: Edit) -> str:
        """What was done; raises `RefusedError` where that failed."""
        live = await self._awaited(ref, edit, edit.first)
        if why := edit.needless(live):
            return why
        if why := edit.forbids(live):
            raise NotEditedError(why)
        made = await edited(self.cluster, applied_edit(live, edit.spec(live)), edit.field_manager)
        self.changed = True
        if edit.forced and is_paused(made):
            await edited(self.cluster, applied_edit(made, edit.forced), edit.field_manager)
        if not edit.interrupted:
            self.command.interrupted = "Interrupted. The edit is made."
        if "no_wait" in self.options and self.options.no_wait:
            return edit.begun
        if edit.begun:
            print(f"{_shown(ref)}: {edit.begun}", flush=True)
        await self._awaited(ref, edit, edit.steps)
        return edit.done

    async def _awaited(self, ref: Ref, edit: Edit, steps: Steps) -> Manifest:
        step = steps()

        async def progress(live: Manifest) -> Step:
            return step(live)

        limit = edit.limit_seconds if self.options.timeout is None else self.options.timeout
        deleted = NotEditedError("it was deleted.")
        return await wait_until(self.cluster, ref, progress, limit_seconds=limit, deleted=deleted)


async def edited(cluster: KubeCluster, body: Manifest, field_manager: str) -> Manifest:
    ref, query = Ref.of(body), {"fieldManager": field_manager, "force": "true"}
    try:
        return await cluster.api.request("PATCH", ref.path, ref.kind, query=query, body=body)
    except ForbiddenError as error:
        right = f"The command needs the right to patch {ref.kind.name}s"
        raise RefusedError(f"you may not edit it. {right}: {error.cause}") from error
    except (ConflictError, RejectedError) as error:
        raise RefusedError(f"the API server refuses the edit: {error.cause}") from error


def _shown(ref: Ref) -> str:
    return f"{ref.namespace}/{ref.name}"
