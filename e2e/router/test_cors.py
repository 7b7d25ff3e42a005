"""Browsers on other sites at a real HAProxy: preflights, and headers of every answer."""

import pytest
from multidict import CIMultiDict

from e2e.router.loopback import Loopback
from e2e.router.test_keys import ALICE, KEYS, bearer, line
from inference_operator.api.router import RouterSpec

PAGE, OTHER = "https://app.example.com", "https://app.example.com.evil.example"
CHAT = "/v1/chat/completions"
ASKED = "authorization,content-type,x-stainless-lang"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": ASKED}
COLD_START_SECONDS = 3


@pytest.fixture
async def router(loopback: Loopback) -> Loopback:
    """A router with keys that a page of another site may call, without an engine."""
    loopback.spec = RouterSpec.model_validate(
        {
            "cors": {"allowedOrigins": ["http://localhost:3000", PAGE]},
            "keys": KEYS.model_dump(by_alias=True),
            "coldStart": {"timeout": f"{COLD_START_SECONDS}s"},
        }
    )
    loopback.write_keys(line("alice", ALICE))
    await loopback.start_router()
    assert await loopback.checked_configuration() == ("", "")
    return loopback


@pytest.mark.parametrize("path", [CHAT, "/chat/completions"])
async def test_a_preflight_is_answered_at_zero_without_a_key_and_is_no_demand(router: Loopback, path: str) -> None:
    async with router.session.options(router.url + path, headers={"Origin": PAGE, **PREFLIGHT}) as answer:
        headers = answer.headers
    assert answer.status == 204
    assert headers["Access-Control-Allow-Origin"] == PAGE
    assert headers["Access-Control-Allow-Headers"] == ASKED
    assert "POST" in headers["Access-Control-Allow-Methods"]
    assert "Origin" in headers["Vary"]
    assert await router.metric('haproxy_backend_sessions_total{proxy="engines"}') == 0


@pytest.mark.parametrize("origin", [OTHER, PAGE.replace("https", "http"), "null", PAGE + ":443", f"{PAGE}, {OTHER}"])
async def test_a_page_that_is_not_listed_gets_no_leave_and_the_cure(router: Loopback, origin: str) -> None:
    async with router.session.options(router.url + CHAT, headers={"Origin": origin, **PREFLIGHT}) as answer:
        assert (await answer.json())["error"]["code"] == "origin_not_allowed"
    assert answer.status == 403
    assert not {name for name in answer.headers if name.lower().startswith("access-control-")}
    assert "Origin" in answer.headers["Vary"]


async def test_a_page_reads_every_answer_of_the_router_and_of_an_engine(router: Loopback) -> None:
    asked = {
        401: (CHAT, {}),
        404: ("/v1/nothing", {}),
        503: ("/v1/completions", bearer(ALICE)),
    }
    for status, (path, headers) in asked.items():
        async with router.session.post(router.url + path, json={}, headers={"Origin": PAGE, **headers}) as answer:
            assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (status, PAGE)
            assert "X-Request-Id" in answer.headers["Access-Control-Expose-Headers"]
    await router.start_engine()
    await router.until_served(1)
    own = {
        "type": "text/plain",
        "pieces": ["text"],
        "headers": {"Access-Control-Allow-Origin": "*", "Vary": "Accept"},
    }
    for origin, allowed in ((PAGE, [PAGE]), (OTHER, [])):
        headers = {"Origin": origin, **bearer(ALICE)}
        async with router.session.post(router.url + CHAT, json=own, headers=headers) as answer:
            assert answer.headers.getall("Access-Control-Allow-Origin", []) == allowed
            assert sorted(answer.headers.getall("Vary")) == ["Accept", "Origin"]


async def test_of_two_origins_none_gets_leave(router: Loopback) -> None:
    headers = CIMultiDict([("Origin", PAGE), ("Origin", OTHER), *PREFLIGHT.items()])
    async with router.session.options(router.url + CHAT, headers=headers) as answer:
        assert (answer.status, answer.headers.getall("Access-Control-Allow-Origin", [])) == (403, [])


async def test_a_request_with_options_that_is_no_preflight_needs_a_key(router: Loopback) -> None:
    async with router.session.options(router.url + CHAT, headers={"Origin": PAGE}) as answer:
        assert answer.status == 401
