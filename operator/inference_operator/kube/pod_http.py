"""HTTP requests to pods, which may run anybody's code: bounded in time and size, without redirects and proxies."""

import orjson
from aiohttp import ClientError, ClientSession, ClientTimeout

from inference_operator.controller.cluster import ClusterError, PodResponse
from inference_operator.views.pod_request import PodRequestSpec

CONNECT_SECONDS = 1.0
"""A pod of the same cluster accepts a connection within milliseconds."""
MAX_BYTES = 16 * 1024
"""What is read of a response; enough for an error message."""


async def post_to_pod(request: PodRequestSpec) -> PodResponse:
    """Send the request on a connection of its own; raises `ClusterError` if the pod gives no response in time."""
    timeout = ClientTimeout(total=request.timeout_seconds, sock_connect=CONNECT_SECONDS)
    headers = {"Content-Type": "application/json"}
    data = orjson.dumps(request.body)
    try:
        async with (
            ClientSession(timeout=timeout, headers=headers) as session,
            session.post(request.url, data=data, allow_redirects=False) as response,
        ):
            content = await response.content.read(MAX_BYTES)
    except TimeoutError as error:
        raise ClusterError("the pod did not respond in time", request=f"POST {request.url}") from error
    except (ClientError, OSError, ValueError) as error:
        raise ClusterError("the pod cannot be reached", request=f"POST {request.url}: {error}") from error
    return PodResponse(response.status, content.decode(errors="replace"))
