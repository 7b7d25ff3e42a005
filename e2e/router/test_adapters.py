"""Adapters at a real HAProxy: which names it forwards, what it lists, and how it follows the list."""

import asyncio
import hashlib
import io
import json
import re
import time

import aiohttp
import pytest

from e2e.router.loopback import START_SECONDS, Loopback
from inference_operator.api.router import KeysSecretRef, RouterKeysSpec, RouterSpec, RouterStrategy
from inference_operator.router.body import model_expression
from inference_operator.router.long_bodies import LONGEST_BYTES
from inference_operator.router.observe import ROUTER_METRICS_PATH
from tests.testing.named_models import odd_bodies

ODD_BODIES = 400


@pytest.fixture
async def adapted(loopback: Loopback) -> Loopback:
    """A router of a model with one adapter, and one engine."""
    loopback.has_adapters = True
    loopback.write_adapters("sql\n")
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    return loopback


async def post(router: Loopback, body: object, path: str = "/v1/completions") -> tuple[int, str]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with router.session.post(f"{router.url}{path}", data=raw) as answer:
        return answer.status, await answer.text()


async def models(router: Loopback) -> list[str]:
    async with router.session.get(f"{router.url}/v1/models") as answer:
        assert answer.status == 200
        return [one["id"] for one in (await answer.json())["data"]]


async def until_listed(router: Loopback, names: list[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while await models(router) != names:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


async def test_haproxy_accepts_the_configuration_without_a_warning(loopback: Loopback) -> None:
    loopback.has_adapters = True
    for strategy in (RouterStrategy.LEAST_OUTSTANDING, RouterStrategy.PREFIX_AFFINITY):
        loopback.spec = RouterSpec(strategy=strategy, usage="Enabled")
        loopback.write_adapters("sql\n")
        await loopback.start_router()
        assert await loopback.checked_configuration() == ("", "")
        assert loopback.router is not None
        loopback.router.terminate()
        await loopback.router.wait()


async def test_the_model_and_its_adapters_are_forwarded_and_other_names_are_not(adapted: Loopback) -> None:
    for name in (*adapted.model_names, "sql"):
        assert (await post(adapted, {"model": name, "prompt": "x"}))[0] == 200
    for path in ("/v1/load_lora_adapter", "/v1/unload_lora_adapter"):
        assert (await post(adapted, {"lora_name": "x", "lora_path": "/x"}, path))[0] == 404
    status, text = await post(adapted, {"model": "sqll", "prompt": "x"})
    assert status == 404
    assert json.loads(text)["error"]["message"] == "the model `sqll` does not exist. Did you mean `sql`?"
    assert (await post(adapted, {"prompt": "x", "model": 'a"%[env(PATH)]'}))[1].count("PATH") == 0


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "chat", "prompt": "x", "model": "unlisted"}',
        rb'{"mod\u0065l": "unlisted", "prompt": "x"}',
        '{"model": "unlisted", "prompt": "x"}'.encode("utf-16"),
        b"\xef\xbb\xbf" + b'{"model": "unlisted", "prompt": "x"}',
        b'{"prompt": ' + b"[" * 65 + b"]" * 65 + b', "model": "unlisted"}',
        b"{",
    ],
    ids=["twice", "escaped", "UTF-16", "byte order mark", "deep", "cut"],
)
async def test_a_body_that_an_engine_may_read_otherwise_is_refused(adapted: Loopback, body: bytes) -> None:
    status, text = await post(adapted, body)
    assert status == 400
    assert json.loads(text)["error"]["code"] == "invalid_json"


async def test_a_body_is_a_form_only_where_the_type_that_an_engine_reads_says_so(adapted: Loopback) -> None:
    json_type, form = "application/json", "multipart/form-data; boundary=x"
    for types in ([f"{json_type}; a=b,{form}"], [f"{json_type}, {form}"], [json_type, form]):
        headers = [("Content-Type", one) for one in types]
        sent = adapted.session.post(f"{adapted.url}/v1/completions", data=b'{"model": "unlisted"}', headers=headers)
        async with sent as answer:
            assert answer.status == 404, types


async def test_the_router_reads_the_model_of_odd_bodies_as_its_expression_does(adapted: Loopback) -> None:
    expression, known = re.compile(model_expression().encode()), {b"chat", b"sql", None}
    for body in filter(None, odd_bodies(3, ODD_BODIES)):
        found = expression.match(body.partition(b"\0")[0])
        name = found and found[2] and found[2].replace(rb"\/", b"/")
        expected = 400 if not found else 200 if name in known else 404
        assert (await post(adapted, body, "/v1/embeddings"))[0] == expected, body


async def test_limit_the_engine_alone_reads_a_form_and_what_is_behind_a_full_buffer(adapted: Loopback) -> None:
    form = aiohttp.FormData({"model": "unlisted"}, default_to_multipart=True)
    async with adapted.session.post(f"{adapted.url}/v1/embeddings", data=form) as answer:
        assert answer.status == 200
    for size in (1_000_000, LONGEST_BYTES + 2**20):
        is_whole = adapted.reads_long_bodies and size < LONGEST_BYTES
        for name, status in (("chat", 400 if is_whole else 200), ("unlisted", 400 if is_whole else 404)):
            long = f'{{"model": "{name}", "input": "{"x" * size}", "model": "unlisted"}}'.encode()
            async with adapted.session.post(f"{adapted.url}/v1/embeddings", data=io.BytesIO(long)) as answer:
                assert answer.status == status, size


async def test_a_model_behind_ten_megabytes_is_found_where_haproxy_has_large_buffers(adapted: Loopback) -> None:
    url = f"{adapted.url}/v1/embeddings"
    for name, status in (("chat", 200), ("unlisted", 404 if adapted.reads_long_bodies else 200)):
        body = f'{{"input": "{"x" * 10_000_000}", "model": "{name}"}}'.encode()
        sent = [adapted.session.post(url, data=io.BytesIO(body)) for _ in range(2)]
        for answer in await asyncio.gather(*sent):
            assert answer.status == status
            assert await answer.read() == body or status != 200


async def test_a_body_without_a_name_is_forwarded(adapted: Loopback) -> None:
    for body in ({"prompt": "x"}, b"", b'{"prompt": "x", "model": null}'):
        assert (await post(adapted, body))[0] == 200


async def test_the_list_follows_the_file_and_keeps_it_while_it_cannot_be_read(adapted: Loopback) -> None:
    base = list(adapted.model_names)
    await until_listed(adapted, [*base, "sql"])
    adapted.write_adapters("chat\norg/sql\n")
    await until_listed(adapted, [*base, "chat", "org/sql"])
    assert (await post(adapted, {"model": "sql"}))[0] == 404
    assert (await post(adapted, {"model": "org/sql"}))[0] == 200
    async with adapted.session.get(f"{adapted.url}/v1/models/org/sql") as answer:
        assert (await answer.json())["parent"] == base[0]
    adapted.remove_adapters()
    await asyncio.sleep(1.5)  # three times its period
    assert await models(adapted) == [*base, "chat", "org/sql"]


async def test_models_are_listed_while_no_engine_is_up(loopback: Loopback) -> None:
    loopback.has_adapters = True
    loopback.write_adapters("sql\n")
    await loopback.start_router()
    await until_listed(loopback, [*loopback.model_names, "sql"])


async def test_keys_and_affinity_hold_for_adapters(loopback: Loopback) -> None:
    loopback.has_adapters = True
    loopback.spec = RouterSpec(
        keys=RouterKeysSpec(secretRef=KeysSecretRef(name="keys")), strategy=RouterStrategy.PREFIX_AFFINITY
    )
    loopback.write_keys(f"alice: {hashlib.sha256(b'sk-alice').hexdigest()}\n")
    loopback.write_adapters("sql\n")
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    url, body = f"{loopback.url}/v1/completions", {"model": "sql", "prompt": "x"}
    for headers, status in (({}, 401), ({"Authorization": "Bearer sk-alice"}, 200)):
        async with loopback.session.post(url, json=body, headers=headers) as answer:
            assert answer.status == status


async def test_requests_of_each_adapter_are_counted(adapted: Loopback) -> None:
    for _ in range(3):
        await post(adapted, {"model": "sql", "prompt": "x"})
    async with adapted.session.get(f"http://127.0.0.1:{adapted.metrics_port}{ROUTER_METRICS_PATH}") as answer:
        text = await answer.text()
    assert 'inference_operator_router_adapter_requests_total{adapter="sql",code="2xx"} 3' in text
