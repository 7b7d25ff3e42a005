"""The status shows the size of the KV cache that a real vLLM reports."""

import json

from e2e.helpers.served_deployment import Served
from e2e.localkube.waiting import eventually

REPORTED_SECONDS = 180
"""The operator reads all metrics every 120 s."""
TINY_TOKENS = 64 * 2**20 // (2 * 2 * 2 * 32 * 4)
"""64 MiB over the bytes of a token: keys and values, 2 layers, 2 heads, 32 elements, 4 bytes each."""


def test_status_shows_the_kv_cache_tokens_that_an_engine_reports(tiny: Served) -> None:
    def reported() -> int | None:
        status = json.loads(tiny.kubectl("get", "infd", tiny.name, "--output=json"))["status"]
        tokens: int | None = status["engine"].get("kvCache", {}).get("reportedTokens")
        return tokens

    assert eventually(reported, seconds=REPORTED_SECONDS, what="an engine has reported its KV cache") == TINY_TOKENS
