"""The scrape jobs of docs/how-to/monitoring.md, in a real Prometheus that finds the pods by the API server."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import aiohttp

from e2e.deploy import stack
from e2e.helpers.served_deployment import Served
from e2e.localkube.handle import LocalCluster
from e2e.router.pictures import Line, Source, Span
from e2e.router.prometheus import Prometheus, documented_jobs
from generators.dashboards import FOLDER

SCRAPE_SECONDS = 1.0
FOUND_SECONDS, SHOWN_SECONDS = 60, 90
ANSWERS = 4
REQUESTS, TOKENS = 40, 12
OPERATOR = {"app.kubernetes.io/name": "inference-operator"}
SHOWN = {
    "service": {
        *("Conditions", "Engines", "Requests", "Time to the first token", "Time between tokens", "Tokens per second"),
        *("Requests under way", "KV cache in use", "Prefix cache hits", "Ends of answers", "Error budget left"),
    },
    "fleet": {"Resources", "Tokens per second"},
    "router": {"Requests", "Requests at routers", "Requests at each engine", "Engines that get requests", "Times"},
    "operator": {"Leader", "Reconciles", "Requests to the API server", "Watches", "Scrapes"},
}
"""Panels that have lines once some requests are answered: those about a resource need the labels of the jobs."""

Page = tuple[str, str, str, str, str]
"""Job, address, namespace, pod, and name of the InferenceDeployment."""


@asynccontextmanager
async def scraped(cluster: LocalCluster, folder: Path) -> AsyncIterator[Prometheus]:
    """A Prometheus with the documented jobs."""
    async with aiohttp.ClientSession() as session:
        jobs = documented_jobs(cluster.kubeconfig)
        prometheus = await Prometheus.start(folder, jobs, session, seconds=SCRAPE_SECONDS)
        try:
            yield prometheus
        finally:
            await prometheus.close()


def pages(cluster: LocalCluster, tiny: Served) -> set[Page]:
    """What the table of the docs lists: a page of each operator and engine, and four of each router."""
    selector = ",".join(f"{label}={value}" for label, value in OPERATOR.items())
    asked = ("--namespace", stack.SYSTEM, "get", "pods", "--selector", selector, "--output=json")
    found = {
        ("inference-operator", f"{pod['status']['podIP']}:8080", stack.SYSTEM, pod["metadata"]["name"], "")
        for pod in json.loads(cluster.kubectl(*asked))["items"]
    }
    of = tiny.namespace, tiny.name
    for pod, address in tiny.pods("engine").items():
        found.add(("inference-engines", f"{address}:8000", of[0], pod, of[1]))
    for pod, address in tiny.pods("router").items():
        for job in ("inference-routers", "inference-routers-own"):
            found |= {(job, f"{address}:{port}", of[0], pod, of[1]) for port in (9100, 9101)}
    return found


async def scraped_pages(prometheus: Prometheus, tiny: Served) -> Mapping[Page, float]:
    """The pages of the operator and of the resource, each with 1 if it could be read."""
    names = ("job", "instance", "namespace", "pod", "name")
    series = {tuple(labels.get(one, "") for one in names): up for labels, up in await prometheus.query("up")}
    return {page: up for page, up in series.items() if page[-1] in ("", tiny.name)}  # type: ignore[misc]


async def shown(prometheus: Prometheus, tiny: Served) -> Mapping[str, Mapping[str, Sequence[Line]]]:
    """The lines of every panel, by dashboard and title."""
    source = Source(prometheus.session, prometheus.url, {"resource_namespace": tiny.namespace, "name": tiny.name})
    boards = {name: json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in SHOWN}
    span = Span(time.time(), SHOWN_SECONDS, rate_seconds=4 * SCRAPE_SECONDS)
    return {
        name: {panel["title"]: await source.lines(panel, span) for panel in board["panels"]}
        for name, board in boards.items()
    }


async def counted(prometheus: Prometheus, tiny: Served) -> Mapping[str, float]:
    """Requests and tokens since the processes began, as the sums of the dashboards' own series."""
    of = f'resource_namespace="{tiny.namespace}",name="{tiny.name}"'
    asked = {
        "answered": f'haproxy_frontend_http_responses_total{{proxy="api",code="2xx",{of}}}',
        "forwarded": f'haproxy_backend_http_requests_total{{proxy="engines",{of}}}',
        "ended": f'vllm:request_success_total{{finished_reason="length",{of}}}',
        "prompt": f"vllm:prompt_tokens_total{{{of}}}",
        "generated": f"vllm:generation_tokens_total{{{of}}}",
        "first tokens": f"vllm:time_to_first_token_seconds_count{{{of}}}",
    }
    found = {name: await prometheus.query(f"sum({query})") for name, query in asked.items()}
    return {name: series[0][1] if series else 0 for name, series in found.items()}


async def test_the_documented_jobs_read_every_page_and_give_the_dashboards_their_labels(
    cluster: LocalCluster, tiny: Served, tmp_path: Path
) -> None:
    async with scraped(cluster, tmp_path) as prometheus:
        deadline = time.monotonic() + FOUND_SECONDS
        while (found := await scraped_pages(prometheus, tiny)) != dict.fromkeys(pages(cluster, tiny), 1.0):
            assert time.monotonic() < deadline, (found, pages(cluster, tiny))
            await asyncio.sleep(SCRAPE_SECONDS)
        deadline = time.monotonic() + SHOWN_SECONDS
        while True:
            for number in range(ANSWERS):
                await asyncio.to_thread(tiny.complete, f"otters {number}")
            lines = await shown(prometheus, tiny)
            empty = [(name, title) for name, titles in SHOWN.items() for title in titles if not lines[name][title]]
            if not empty:
                break
            assert time.monotonic() < deadline, empty
        await load_is_counted(prometheus, tiny)


async def load_is_counted(prometheus: Prometheus, tiny: Served) -> None:
    """Real engines and routers count what was asked, exactly."""
    await asyncio.sleep(2 * SCRAPE_SECONDS)
    before, prompts = await counted(prometheus, tiny), 0
    for number in range(REQUESTS):
        body = {"model": tiny.name, "prompt": f"otters and {number}", "max_tokens": TOKENS, "ignore_eos": True}
        status, text = await asyncio.to_thread(tiny.post, "/v1/completions", body)
        assert status == HTTPStatus.OK, text
        prompts += json.loads(text)["usage"]["prompt_tokens"]
    requests = dict.fromkeys(("answered", "forwarded", "ended", "first tokens"), REQUESTS)
    expected = {**requests, "prompt": prompts, "generated": REQUESTS * TOKENS}
    deadline = time.monotonic() + FOUND_SECONDS
    while True:
        after = await counted(prometheus, tiny)
        found = {name: value - before[name] for name, value in after.items()}
        if found == expected:
            return
        assert time.monotonic() < deadline, (found, expected)
        await asyncio.sleep(SCRAPE_SECONDS)
