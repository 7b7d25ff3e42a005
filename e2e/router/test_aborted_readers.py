"""Readers of every page of every port go away at every moment: no HAProxy ends, and none computes on."""

import asyncio
import re
from collections import Counter

import pytest

from e2e.free_ports import free_ports
from e2e.router.loopback import Loopback
from e2e.router.readers import MOMENTS, Moment, Page, abort_many, abort_while_they_wait, pages
from e2e.router.test_keys import ALICE, bearer, line
from inference_operator.api.router import RouterSpec

FEW, MANY = 6, 100
SPEC = {
    "keys": {"secretRef": {"name": "users"}, "maxConcurrent": 1_000},
    "tls": {"secretRef": {"name": "certificate"}},
    "usage": "Enabled",
    "accessLog": "Disabled",
}
HELD = 4


@pytest.fixture
async def whole(loopback: Loopback) -> Loopback:
    """A router with all pages, whose two processes run, and no engine. Its list of models is longer than a buffer."""
    loopback.spec = RouterSpec.model_validate(SPEC)
    loopback.has_adapters = True
    loopback.write_adapters("".join(f"{'long-' * 40}{number}\n" for number in range(255)))
    loopback.write_keys(line("alice", ALICE))
    loopback.renew_certificate()
    (loopback.twin_metrics_port,) = free_ports(1)
    await loopback.start_router()
    await loopback.start_twin()
    return loopback


async def aborted(router: Loopback, readers: int, *, answers_wait: bool) -> None:
    """So many readers of each page at each moment; the same processes run after them, and compute nothing."""
    workers = router.workers
    for name, moment in MOMENTS.items():
        chosen = {page: name for page, name in []}
        del chosen
        for page in pages(router).values():
            if page.waits and answers_wait and name in {"in mid-answer", "slowly"}:
                continue
            await abort_many(page, moment, readers)
        assert router.workers == workers, name
    if answers_wait:
        for page in pages(router).values():
            if page.waits:
                await abort_while_they_wait(router, page, readers)


async def test_x(whole):
    import time
    for n in (6,):
        t=time.monotonic()
        workers = whole.workers
        for name, moment in MOMENTS.items():
            for pname, page in pages(whole).items():
                if page.waits and name in {"in mid-answer", "slowly"}: continue
                t1=time.monotonic()
                await abort_many(page, moment, n)
                if time.monotonic()-t1>.5: print(name,pname,time.monotonic()-t1)
            try:
                await whole.until_idle()
            except BaseException as e: print("IDLE",name,repr(e)); 
            print(name, time.monotonic()-t, workers, whole.workers)
            assert whole.workers == workers, name
        for pname, page in pages(whole).items():
            if page.waits:
                print(pname)
                await abort_while_they_wait(whole, page, n)
        await whole.until_idle()
        assert whole.workers == workers
        print(time.monotonic()-t)
