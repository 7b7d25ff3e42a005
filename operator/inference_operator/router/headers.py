"""Which headers of a request reach an engine: the values of headers.cfg.j2.

The names are an allow-list, since no list of the headers by which proxies tell who a user is can be whole.
"""

from collections.abc import Mapping

from inference_operator.router.error_response import INVALID, ErrorResponse
from inference_operator.router.inputs import RouterInputs
from inference_operator.text_tables import blocks

FORWARDED = [name for (names,) in blocks(__package__, "forwarded-headers") for name in names.split()]

_CHUNKED = ErrorResponse(400, INVALID, "invalid_http", "a request of HTTP/1.0 has no Transfer-Encoding: use HTTP/1.1")


def values(inputs: RouterInputs) -> Mapping[str, object]:
    names = dict.fromkeys((*FORWARDED, inputs.spec.session_header, *inputs.settings.forwarded_headers))
    return {"chunked": _CHUNKED, "others": f"^(?!({'|'.join(map(_pattern, names))})$)"}


def _pattern(name: str) -> str:
    """The regular expression of a name, which HAProxy keeps in lower case."""
    return name.lower().replace("*", ".*")
