"""Error responses of the router itself, in the form of the OpenAI API."""

import json
from dataclasses import dataclass

RETRY_AFTER_SECONDS = 5

INVALID, SERVER, RATE = "invalid_request_error", "server_error", "rate_limit_error"
"""Types of errors in the OpenAI API."""


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    status: int
    kind: str
    """Its `type` in the OpenAI API."""
    code: str
    """A word by which programs tell it from others."""
    message: str
    retry_after: int | None = None
    param: str | None = None
    """The field of the request that is wrong; None for none."""

    @property
    def body(self) -> str:
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return json.dumps({"error": error})

    def log_format(self, **samples: str) -> str:
        r"""Its body as a HAProxy log-format string in single quotes.

        Args:
            samples: by name, the sample expression that stands for `<name>` in the message. What clients sent is
                shortened and quoted for JSON by it: `SHOWN`.

        Examples:
            >>> error = ErrorResponse(404, INVALID, "unknown_url", "100 % of `<path>`: it's unknown")
            >>> print(error.log_format(path="var(txn.path)"))  # doctest: +ELLIPSIS
            {"error": {"message": "100 %% of `%[var(txn.path)]`: it\u0027s unknown", "type": ...}}
        """
        text = self.body.replace("%", "%%").replace("'", "\\u0027")
        for name, sample in samples.items():
            text = text.replace(f"<{name}>", f"%[{sample}]")
        return text


SHOWN = "bytes(0,128),json(utf8s)"
"""Converters of a text of a client that an answer quotes: the beginning of it, as JSON. Wrong UTF-8 is left out."""

NO_ENGINE = ErrorResponse(503, SERVER, "no_engine", "no engine is available", RETRY_AFTER_SECONDS)
OF_HAPROXY = (
    ErrorResponse(400, INVALID, "invalid_http", "the request is not valid HTTP"),
    ErrorResponse(408, INVALID, "request_timeout", "the request did not arrive in time"),
    ErrorResponse(500, SERVER, "router_failed", "the router failed"),
    ErrorResponse(502, SERVER, "engine_failed", "the engine ended before it answered", RETRY_AFTER_SECONDS),
    NO_ENGINE,
    ErrorResponse(504, SERVER, "engine_timeout", "the engine did not answer in time", RETRY_AFTER_SECONDS),
)
"""The status codes that HAProxy gives by itself, without a rule."""
