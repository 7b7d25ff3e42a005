"""`infd cache`: lists the models on claims, downloads one before any resource exists, and deletes the unused ones."""

import argparse
import sys
from collections.abc import Iterator, Sequence

from inference_operator.api.effective_spec import effective_spec
from inference_operator.api.engine import EngineSpec
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import resource
from inference_operator.cli.cache import jobs
from inference_operator.cli.cache.contents import COMPLETE, OnClaim, models_on_claims
from inference_operator.cli.cache.jobs import Ended
from inference_operator.cli.cluster_command import ClusterCommand, list_objects, live_of
from inference_operator.cli.offline import UNKNOWN_UID
from inference_operator.cli.options import token_reference
from inference_operator.cli.output import Columns, print_found, progress_aside, table_of
from inference_operator.cli.parser import RefusedError, UsageError, harmless
from inference_operator.engines.registry import ENGINES
from inference_operator.jobs.download import Download
from inference_operator.jobs.download_result import Downloaded, parsed_download
from inference_operator.jobs.placement import WritableClaim
from inference_operator.jobs.result import Failure
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import CLAIM, CONFIG_MAP, POD, Key, Manifest, Owner, Ref
from inference_operator.model_files.pruning import Item, PruneReport, parsed_report
from inference_operator.model_files.uses import COMMAND, claim_uses, record_claim, record_commit, record_model
from inference_operator.models.source import DOWNLOADED, model_source
from inference_operator.objects.names import MANAGED_BY_LABEL
from inference_operator.roles.context import SharedContext
from inference_operator.settings import Settings
from inference_operator.units import GIB
from inference_operator.views.raw import mapping

INTERRUPTED = "Interrupted. The Job goes on; the same command follows it again."


def list_models(options: argparse.Namespace) -> int:
    namespace = None if options.all_namespaces else options.namespace

    async def work(cluster: KubeCluster) -> list[OnClaim]:
        found = await jobs.observed(cluster, namespace)
        return models_on_claims(found, [await jobs.last_step(cluster, job) for job in found.jobs])

    models = ClusterCommand(options).run(work)
    none = f"No model is on a claim in {f'the namespace {namespace}' if namespace else 'any namespace'}."
    print_found(models, options.output, table_of(COLUMNS, models) if models else [none])
    return 0


COLUMNS: Columns[OnClaim] = {
    "CLAIM": lambda one: f"{one.namespace}/{one.claim}",
    "MODEL": lambda one: one.model,
    "REVISION": lambda one: one.revision[:12] or "-",  # as many digits of a commit as git shows
    "SIZE": lambda one: _gib(one.size_bytes) if one.size_bytes else "-",
    "USED BY": lambda one: ",".join(one.used_by) or "-",
    "STATE": lambda one: one.state,
}


ITEMS: Columns[Item] = {
    "ON THE CLAIM": lambda one: one.what,
    "STATE": lambda one: one.state,
    "SIZE": lambda one: _gib(one.size_bytes),
    "ACTION": lambda one: f"{one.action}: {one.why}",
}


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.2f} GiB"


def prefetch(options: argparse.Namespace) -> int:
    inputs = _download(options)
    command = ClusterCommand(options)

    async def work(cluster: KubeCluster) -> tuple[Ref, Ended, Downloaded | Failure | None]:
        node = await _claim_node(cluster, options)
        ref = await jobs.start(cluster, jobs.on_node(jobs.prefetch_job(inputs), node), _say)
        command.interrupted = INTERRUPTED
        ended = await jobs.follow(cluster, ref, _say)
        result = parsed_download(ended.message)
        if ended.succeeded and isinstance(result, Downloaded):
            record = jobs.prefetch_record(inputs, result)
            await cluster.apply(Ref.of(record), record, force=True)
            await jobs.delete(cluster, ref)
        return ref, ended, result

    with progress_aside(options.output):
        ref, ended, result = command.run(work)
    if ended.succeeded and isinstance(result, Downloaded):
        found = OnClaim(options.namespace, options.claim, options.source, result.commit, result.size_bytes, COMPLETE)
        line = f"{options.source} is complete on the claim {options.claim}: {_gib(result.size_bytes)}, {result.commit}."
        print_found(found, options.output, [line])
        return 0
    why = result.message if isinstance(result, Failure) else ended.message or "it ended without a result."
    raise RefusedError(f"Job {ref.name}: {why}")


def _download(options: argparse.Namespace) -> Download:
    """The download that the operator would request for a resource with this model and claim."""
    source = model_source(options.source)
    if not isinstance(source, DOWNLOADED):
        raise UsageError(f"{options.source}: only `hf://org/name` and `s3://bucket/path` can be downloaded.")
    model: Manifest = {"source": options.source, **({"revision": options.revision} if options.revision else {})}
    if options.allow_pickle:
        model["allowPickle"] = True
    model |= token_reference(options.token_secret)
    if options.s3_secret:
        model["s3"] = {"credentialsSecretRef": {"name": options.s3_secret}}
    variables = [text.partition("=") for text in options.env]
    if any(not equals for _, equals, _ in variables):
        raise UsageError("--env: write NAME=VALUE, for example `--env HF_ENDPOINT=https://hub.example`.")
    env = [{"name": name, "value": value} for name, _, value in variables]
    meta = {"name": COMMAND, "namespace": options.namespace, "uid": UNKNOWN_UID, "generation": 1}
    spec = resource(
        {"metadata": meta, "spec": {"model": model, "engine": {"env": env}, "cache": {"claimName": options.claim}}}
    ).spec
    if isinstance(spec, Refusal):
        raise UsageError(spec.message)
    settings = _settings(options)
    effective = effective_spec(spec, settings.engine_defaults, settings.router_defaults)
    engines = options.engines or ENGINES
    access = engines[engines.default].access(effective.engine, effective.model)
    owner = Owner(Key(options.namespace, COMMAND), UNKNOWN_UID)
    shared = SharedContext(effective=effective, source=source, access=access, owner=owner, settings=settings)
    return Download(shared, "", WritableClaim(options.claim))


def _settings(options: argparse.Namespace) -> Settings:
    return Settings(operator_image=options.image) if options.image else Settings()


async def _claim_node(cluster: KubeCluster, options: argparse.Namespace) -> str:
    """The only node that can mount the claim now; empty if any can. Raises `UsageError` if there is no such claim."""
    claim = await live_of(cluster, options.namespace, options.claim, CLAIM)
    modes = mapping(claim, "spec").get("accessModes") or ()
    return jobs.claim_node(options.claim, modes, await list_objects(cluster, POD, options.namespace))


def prune(options: argparse.Namespace) -> int:
    engines = options.engines or ENGINES
    settings, access = _settings(options), engines[engines.default].access(EngineSpec())

    command = ClusterCommand(options)

    async def work(cluster: KubeCluster) -> tuple[Ref, Ended, PruneReport | None]:
        claim, namespace = options.claim, options.namespace
        node, found = await _claim_node(cluster, options), await jobs.observed(cluster, namespace)
        uses = claim_uses(claim, found.resources, await jobs.workloads(cluster, namespace), found.records)
        job = jobs.prune_job(claim, namespace, uses, access, settings, dry_run=options.dry_run, node=node)
        ref = await jobs.start(cluster, job, lambda line: print(harmless(line), file=sys.stderr))
        command.interrupted = INTERRUPTED
        ended = await jobs.follow(cluster, ref, lambda _: None)
        report = (parsed_report(ended.log) or parsed_report(ended.message)) if ended.succeeded else None
        if report is not None:
            await _forget(cluster, options.claim, found.records, report)
            await jobs.delete(cluster, ref)
        return ref, ended, report

    ref, ended, report = command.run(work)
    if report is None:
        raise RefusedError(f"Job {ref.name} failed: {ended.message or 'it ended without a result.'}")
    print_found(report, options.output, _lines(report))
    return 0


async def _forget(cluster: KubeCluster, claim: str, records: Sequence[Manifest], report: PruneReport) -> None:
    """Delete the records of prefetched models that the Job has deleted; the operator keeps its own records."""
    gone = {item.what for item in report.items if item.action == "delete"} if not report.dry_run else set()
    for record in records:
        by_command = mapping(record["metadata"], "labels").get(MANAGED_BY_LABEL) == COMMAND
        if by_command and record_claim(record) == claim and f"{record_model(record)}@{record_commit(record)}" in gone:
            await jobs.delete(cluster, Ref(CONFIG_MAP, record["metadata"]["namespace"], record["metadata"]["name"]))


def _lines(report: PruneReport) -> Iterator[str]:
    if report.items:
        yield from table_of(ITEMS, report.items)
    else:
        yield "The log of the Job's pod cannot be read, or nothing is on the claim."
    yield f"{'Would free' if report.dry_run else 'Freed'} {_gib(report.freed_bytes)}."


def _say(line: str) -> None:
    print(harmless(line), flush=True)
