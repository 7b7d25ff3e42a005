"""Error responses of the router itself, in the form of the OpenAI API."""

import json
from dataclasses import dataclass

RETRY_AFTER_SECONDS = 5


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An error response of the router itself."""

    status: int
    kind: str
    """Its `type` in the OpenAI API."""
    message: str
    retry_after: int | None = None
    """Seconds of its header `Retry-After`."""

    @property
    def body(self) -> str:
        """Its body: JSON."""
        return json.dumps({"error": {"message": self.message, "type": self.kind, "code": self.status}})


NO_ENGINE = ErrorResponse(503, "server_error", "no engine is available", RETRY_AFTER_SECONDS)
OF_HAPROXY = (
    ErrorResponse(400, "invalid_request_error", "the request is not valid HTTP"),
    ErrorResponse(408, "invalid_request_error", "the request did not arrive in time"),
    ErrorResponse(500, "server_error", "the router failed"),
    ErrorResponse(502, "server_error", "the engine ended before it answered", RETRY_AFTER_SECONDS),
    NO_ENGINE,
    ErrorResponse(504, "server_error", "the engine did not answer in time", RETRY_AFTER_SECONDS),
)
"""The status codes that HAProxy gives by itself, without a rule."""
