"""A connection to the cluster of the kubeconfig, for the commands that need one."""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from inference_operator.cli.parser import UsageError

if TYPE_CHECKING:
    from inference_operator.kube.client import Api
    from inference_operator.kube.cluster import KubeCluster

_Result = TypeVar("_Result")


async def in_cluster(work: "Callable[[Api, KubeCluster], Awaitable[_Result]]") -> _Result:
    """The result of `work`; raises `UsageError` if the API server cannot be asked or refuses."""
    from inference_operator.controller.cluster import ClusterError  # noqa: PLC0415 - as below
    from inference_operator.kube.client import Api, connect  # noqa: PLC0415 - a second of imports that only this needs
    from inference_operator.kube.cluster import KubeCluster  # noqa: PLC0415 - as above

    logging.getLogger("kubernetes").setLevel(logging.CRITICAL)  # the error below says the same for users
    try:
        client = await connect()
        try:
            api = Api(client)
            return await work(api, KubeCluster(api))
        finally:
            await client.close()  # type: ignore[no-untyped-call]
    except ClusterError as error:
        raise UsageError(f"{error.cause}. Check that `kubectl get infd` works with the same kubeconfig.") from error
