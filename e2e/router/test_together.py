"""All capabilities of the router at once: their rules do not disturb each other."""

import io
from typing import Any

import aiohttp

from e2e.router.loopback import Loopback
from e2e.router.test_keys import ALICE, bearer, line
from inference_operator.api.router import RouterSpec
from inference_operator.router.observe import ROUTER_METRICS_PATH

SPEC: dict[str, Any] = {
    "strategy": "PrefixAffinity",
    "keys": {"secretRef": {"name": "users"}},
    "tls": {"secretRef": {"name": "certificate"}},
    "queue": {"maxSize": 20, "timeout": "1m"},
    "coldStart": {"timeout": "1m"},
    "maxBodySize": "1Mi",
    "accessLog": "Enabled",
    "usage": "Enabled",
    "metrics": {"users": True},
}


async def test_all_capabilities_work_together(loopback: Loopback) -> None:
    loopback.spec = RouterSpec.model_validate(SPEC)
    loopback.write_keys(line("alice", ALICE))
    loopback.renew_certificate()
    await loopback.start_router()
    assert await loopback.checked_configuration() == ("", "")
    models, chat = f"{loopback.url}/v1/models", f"{loopback.url}/v1/chat/completions"
    body = {"model": "chat", "messages": [{"role": "user", "content": "Hi"}]}
    assert await _status(loopback, "GET", models) == 401
    assert await _status(loopback, "GET", models, headers=bearer(ALICE)) == 200, "answered without an engine"
    await loopback.start_engine()
    await loopback.until_served(1)
    assert await _status(loopback, "POST", chat, json=body) == 401
    assert await _status(loopback, "POST", f"{loopback.url}/metrics", headers=bearer(ALICE)) == 404
    assert await _status(loopback, "POST", chat, headers=bearer(ALICE), data=io.BytesIO(b"x" * (1 << 20) + b"x")) == 413
    completions = f"{loopback.url}/v1/completions"
    async with loopback.session.post(completions, headers=bearer(ALICE), json={"prompt": "Hi"}) as answer:
        assert answer.status == 200
        assert answer.headers["X-Request-Id"]
    page = await loopback.metrics(ROUTER_METRICS_PATH)
    assert 'inference_operator_router_requests_total{user="alice",code="2xx"} 2\n' in page
    assert 'inference_operator_router_requests_total{user="alice",code="4xx"} 1\n' in page


async def _status(loopback: Loopback, method: str, url: str, **request: Any) -> int:  # noqa: ANN401 - aiohttp's own
    async with aiohttp.ClientSession() as session, session.request(method, url, **request) as answer:
        assert loopback.port
        return answer.status
