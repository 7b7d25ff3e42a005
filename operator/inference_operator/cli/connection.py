"""A connection to the cluster of a kubeconfig, for the commands that need one, and their options for it."""

import argparse
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from inference_operator.cli.operator_settings import INSTEAD, SELECTOR, FoundSettings, settings_of
from inference_operator.cli.options import DEFAULT_NAMESPACE, SYSTEM_NAMESPACE
from inference_operator.cli.parser import UsageError
from inference_operator.controller.cluster import ClusterError, ForbiddenError
from inference_operator.kube.client import Api, connect, context_namespace
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import DEPLOYMENT, INFERENCE_DEPLOYMENT, Manifest, Ref
from inference_operator.settings import Settings

_Result = TypeVar("_Result")
CURE = "Check that `kubectl get infd` works with the same kubeconfig."


def namespace_of_context(options: argparse.Namespace) -> str:
    """The namespace of a command that was given none: that of the context."""
    _silence_client()
    return context_namespace(options.kubeconfig, options.context) or DEFAULT_NAMESPACE


def _silence_client() -> None:
    """Keep the client's own warnings from the terminal: the errors of commands say the same for users."""
    logging.getLogger("kubernetes").setLevel(logging.CRITICAL)


async def in_cluster(
    work: Callable[[Api, KubeCluster], Awaitable[_Result]], options: argparse.Namespace, *, cure: str = CURE
) -> _Result:
    """The result of `work` in the cluster that the options choose.

    Raises:
        UsageError: the API server cannot be asked, or refuses. The message ends with `cure`.
    """
    _silence_client()
    try:
        client = await connect(options.kubeconfig, options.context, max_connections=0)
        try:
            api = Api(client)
            return await work(api, KubeCluster(api))
        finally:
            await client.close()  # type: ignore[no-untyped-call]
    except ClusterError as error:
        raise UsageError(f"{error.cause}. {cure}") from error


async def found_settings(cluster: KubeCluster, namespace: str) -> FoundSettings:
    """The settings of the operator that serves a namespace. Variables of the command's own environment replace them."""
    found = await operators(cluster)
    if found is None:
        right = f"get the Deployment `inference-operator` in `{SYSTEM_NAMESPACE}`"
        return FoundSettings(
            Settings(), (f"You have no right to {right}, which has the operator's settings. {INSTEAD}",)
        )
    return settings_of(found, namespace)


async def operators(cluster: KubeCluster) -> Sequence[Manifest] | None:
    """The Deployments of all operators, or of the one in its usual place; None without the right to read it."""
    try:
        return [one async for one in cluster.each(DEPLOYMENT, labels=SELECTOR)]
    except ForbiddenError:
        try:
            own = await cluster.get(Ref(DEPLOYMENT, SYSTEM_NAMESPACE, "inference-operator"))
        except ForbiddenError:
            return None
        return [own] if own else []


_Read = TypeVar("_Read")


async def read_resource(
    options: argparse.Namespace, name: str, read: Callable[[Api, KubeCluster, Manifest], Awaitable[_Read]]
) -> _Read:
    """The result of `read` about a resource in the cluster of the kubeconfig."""
    namespace = options.namespace

    async def found(api: Api, cluster: KubeCluster) -> _Read:
        live = await cluster.get(Ref(INFERENCE_DEPLOYMENT, namespace, name))
        if live is None:
            raise UsageError(f"There is no InferenceDeployment `{name}` in the namespace `{namespace}`.")
        return await read(api, cluster, live)

    return await in_cluster(found, options)
