"""Which headers of a request reach an engine: the values of headers.cfg.j2.

The names are an allow-list, since no list of the headers by which proxies tell who a user is can be whole.
"""

from collections.abc import Mapping

from inference_operator.router.error_response import INVALID, ErrorResponse
from inference_operator.router.inputs import RouterInputs

_CONNECTION = ("host", "connection", "upgrade", "transfer-encoding", "expect", "sec-websocket-*")
"""RFC 9110, RFC 9112 and RFC 6455. Without `transfer-encoding`, HAProxy drops the body of a chunked request."""
_CONTENT = ("content-*", "accept", "accept-*", "user-agent")
"""RFC 9110, sections 8, 10.1.5 and 12.5."""
_BROWSERS = ("origin", "access-control-request-*")
"""The Fetch Standard, section 3.3: vLLM itself answers requests of other origins."""
_CREDENTIALS = ("authorization", "x-api-key")
"""For engines with a key of the user's own. With `router.keys`, keys.cfg.j2 has taken them away before."""
_TRACES = (
    *("x-request-id", "x-correlation-id", "traceparent", "tracestate", "baggage"),
    *("b3", "x-b3-*", "uber-trace-id", "x-amzn-trace-id", "x-cloud-trace-context", "x-datadog-*"),
)
"""W3C Trace Context and Baggage, and the propagators of OpenTelemetry (specification 1.49, "API propagators")."""
_ROUTING = ("x-forwarded-host", "x-forwarded-proto", "x-session-id")
"""What the router sets for meshes and for URLs in answers, and the default of `router.sessionHeader`."""

FORWARDED = (*_CONNECTION, *_CONTENT, *_BROWSERS, *_CREDENTIALS, *_TRACES, *_ROUTING)
"""Names in lower case; a `*` at the end stands for any rest."""

_CHUNKED = ErrorResponse(400, INVALID, "invalid_http", "a request of HTTP/1.0 has no Transfer-Encoding: use HTTP/1.1")


def values(inputs: RouterInputs) -> Mapping[str, object]:
    names = dict.fromkeys((*FORWARDED, inputs.spec.session_header, *inputs.settings.forwarded_headers))
    return {"chunked": _CHUNKED, "others": f"^(?!({'|'.join(map(_pattern, names))})$)"}


def _pattern(name: str) -> str:
    """The regular expression of a name, which HAProxy keeps in lower case.

    Examples:
        >>> _pattern("X-B3-*")
        'x-b3-.*'
    """
    return name.lower().replace("*", ".*")
