# noqa: INP001 (a script for the image, no module of this package)
"""Runs inside the engine's image: asks every route of vLLM's own application, with and without the key of its routers.

python guarded.py QUESTION.json RESULT.json

The question has the arguments of the engine, the command that comes before its own, variables and the key. The result
has the statuses by request.
"""

# vLLM and its kind are in the engine's image, not in the environment that checks this file:
# mypy: disable-error-code="import-not-found"

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KEY_FILE = Path("/data/key")
WITH_KEY = ("GET /version", "GET /ping", "GET /openapi.json")
"""Requests that need no engine."""
MORE = ("GET /health", "HEAD /health", "GET /metrics", "POST /health", "GET /nothing", "GET //metrics", "GET /health/")


def requests_of(app: Any) -> Iterator[str]:  # noqa: ANN401 - an application of FastAPI
    """Each route of the application with each of its methods."""
    for route in app.routes:
        path = re.sub(r"{[^}]*}", "x", route.path)
        methods = getattr(route, "methods", None) or {"GET", "POST"}
        yield from (f"{method} {path}" for method in sorted(methods))


async def statuses(app: Any, question: dict[str, Any]) -> dict[str, dict[str, int]]:  # noqa: ANN401 - as above
    """The statuses without the key, with another and with the right one."""
    import httpx  # noqa: PLC0415 - only the image has it

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    found: dict[str, dict[str, int]] = {"without": {}, "wrong": {}, "right": {}}
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        asked = [*requests_of(app), *MORE]
        for name, key, requests in (
            ("without", "", asked),
            ("wrong", "b" * 64, asked),
            ("right", question["key"], WITH_KEY),
        ):
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            for one in requests:
                method, path = one.split(" ", 1)
                answer = await client.request(method, f"http://engine{path}", headers=headers)
                found[name][one] = answer.status_code
    return found


def inner(question: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Build the application as the engine does, and ask it."""
    from vllm.entrypoints.cli.serve import ServeSubcommand  # noqa: PLC0415
    from vllm.entrypoints.launchers.app import build_app  # noqa: PLC0415
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: PLC0415

    parser = FlexibleArgumentParser()
    ServeSubcommand().subparser_init(parser.add_subparsers(dest="subparser"))
    read = parser.parse_args(["serve", *question["args"]])
    return asyncio.run(statuses(build_app(read, ("generate", "embed", "classify", "transcription")), question))


def main() -> None:
    """Start this script again by the command that comes before that of an engine."""
    question = json.loads(Path(sys.argv[1]).read_text())
    if "--inner" in sys.argv:
        Path(sys.argv[2]).write_text(json.dumps(inner(question)))
        return
    KEY_FILE.write_text(question["key"])
    before = [word.replace(question["file"], str(KEY_FILE)) for word in question["before"]]
    command = [*before, sys.executable, *sys.argv, "--inner"]
    subprocess.run(command, env={**os.environ, **question["env"]}, check=True)


if __name__ == "__main__":
    main()
