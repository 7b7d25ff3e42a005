"""Origins that `spec.router.cors` allows: those that a browser can send."""

import pytest
from pydantic import ValidationError

from inference_operator.api.router import RouterSpec


@pytest.mark.parametrize(
    "origin",
    ["https://app.example.com", "http://localhost:3000", "http://[::1]:8080", "http://my_app.local", "http://10.0.0.1"],
)
def test_an_origin_of_a_browser_is_allowed(origin: str) -> None:
    RouterSpec.model_validate({"cors": {"allowedOrigins": [origin]}})


@pytest.mark.parametrize(
    ("origin", "why"),
    [
        ("https://app.example.com/", "without a path"),
        ("https://App.example.com", "in lower case"),
        ("app.example.com", "scheme"),
        ("*", "scheme"),
        ("null", "scheme"),
        ("http://a:0080", "must be an origin"),
        ("https://app.example.com:443", "browsers leave it out"),
        ("http://app.example.com:80", "browsers leave it out"),
    ],
)
def test_what_no_browser_sends_is_refused_with_the_reason(origin: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        RouterSpec.model_validate({"cors": {"allowedOrigins": [origin]}})
