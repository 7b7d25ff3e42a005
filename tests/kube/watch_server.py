"""A small API server over real HTTP: discovery, listings and watches of ConfigMaps and Services in one namespace."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from aiohttp.test_utils import TestServer

from inference_operator.manifest import CONFIG_MAP, SERVICE, Manifest

NAMESPACE = "default"
KINDS = {CONFIG_MAP.plural: CONFIG_MAP, SERVICE.plural: SERVICE}
VERSION = 41
"""The resourceVersion of every listing."""


def config_map(name: str, *, version: int = VERSION + 1) -> Manifest:
    """A ConfigMap as a watch shows it."""
    meta = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def bookmark(version: int = VERSION + 1) -> Manifest:
    """The event by which an API server tells only a resourceVersion."""
    meta = {"resourceVersion": str(version)}
    return {"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}}


class WatchServer:
    """Answers listings with `items`, and each watch with the events that `stream` gives for it."""

    def __init__(self) -> None:
        self.items: list[Manifest] = []
        self.refused: set[str] = set()
        """The plurals of the kinds whose watches are answered with 404, as after their definition was deleted."""
        self._ends: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.begun: list[str] = []
        """The plurals of the kinds whose watches were opened, in order."""
        self.open = 0
        """How many watches are open."""
        self.asked = 0
        """How many watches were refused."""
        self.streams: list[Callable[[], AsyncIterator[Manifest]]] = []
        """What the watches of ConfigMaps send, one entry for each watch in the order of its begin; then nothing."""
        self.listings: list[Mapping[str, str]] = []
        self.watches: list[Mapping[str, str]] = []
        """The queries of the listings and watches of ConfigMaps, in order."""
        self.server = TestServer(web.Application())
        routes = [
            web.get("/api", self._versions),
            web.get("/apis", self._groups),
            web.get("/api/v1", self._resources),
            web.get("/api/v1/namespaces/{namespace}/{plural}", self._collection),
        ]
        self.server.app.add_routes(routes)

    def refuse(self, plural: str) -> None:
        """End the watches of a kind and refuse new ones, as when its definition is deleted."""
        self.refused.add(plural)
        self._ends.pop(plural, asyncio.Event()).set()

    async def _versions(self, _: web.Request) -> web.Response:
        return web.json_response({"versions": ["v1"]})

    async def _groups(self, _: web.Request) -> web.Response:
        return web.json_response({"groups": []})

    async def _resources(self, _: web.Request) -> web.Response:
        verbs = ["list", "watch", "patch", "get"]
        found = [
            {"name": plural, "singularName": "", "namespaced": True, "kind": kind.name, "verbs": verbs}
            for plural, kind in KINDS.items()
        ]
        # kopf starts no watch before it knows the kind Namespace (1.45.2, kopf/_core/reactor/observation.py).
        found.append({"name": "namespaces", "singularName": "", "namespaced": False, "kind": "Namespace", "verbs": []})
        return web.json_response({"kind": "APIResourceList", "groupVersion": "v1", "resources": found})

    async def _collection(self, request: web.Request) -> web.StreamResponse:
        plural, query = request.match_info["plural"], dict(request.query)
        if "watch" in query:
            return await self._watch(request, plural, query)
        items: Sequence[Manifest] = self.items if plural == CONFIG_MAP.plural else ()
        if plural == CONFIG_MAP.plural:
            self.listings.append(query)
        if query.get("fieldSelector") == "metadata.name=-":
            items = ()
        return web.json_response({"metadata": {"resourceVersion": str(VERSION)}, "items": list(items)})

    async def _watch(self, request: web.Request, plural: str, query: Mapping[str, str]) -> web.StreamResponse:
        if plural in self.refused:
            self.asked += 1
            return web.json_response({"kind": "Status", "code": 404, "message": "not found"}, status=404)
        response = web.StreamResponse()
        await response.prepare(request)
        self.begun.append(plural)
        self.open += 1
        try:
            if plural == CONFIG_MAP.plural:
                self.watches.append(query)
                if len(self.watches) <= len(self.streams):
                    async for event in self.streams[len(self.watches) - 1]():
                        await response.write(json.dumps(event).encode() + b"\n")
            await self._ends[plural].wait()  # an open connection over which nothing more comes
        finally:
            self.open -= 1
        return response


@asynccontextmanager
async def serving(server: WatchServer, kubeconfig: Path) -> AsyncIterator[WatchServer]:
    """The server at work, with a kubeconfig that names it."""
    async with server.server:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": str(server.server.make_url("/"))}}],
            "users": [{"name": "a", "user": {}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        }
        kubeconfig.write_text(json.dumps(config))  # noqa: ASYNC240 - once, before anything runs
        yield server
