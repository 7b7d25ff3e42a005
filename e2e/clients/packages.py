"""Makes the calls of the table with the `openai` packages of Python and JavaScript."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import openai
from pydantic import BaseModel

from e2e.clients.calls import POST, Call, Outcome
from e2e.localkube import debian_packages
from e2e.localkube.cache import cache_root
from e2e.localkube.state import exclusive

_HERE = Path(__file__).parent
_INPUTS = ("package.json", "package-lock.json", "ask.mjs")
_SECONDS = 300
_ANSWER_SECONDS = 60.0


def with_python(address: str, model: str, calls: Sequence[Call]) -> list[Outcome]:
    """The outcomes of calls of Python's package at `IP:port`, in order."""
    return [_asked(address, model, call) for call in calls]


def with_javascript(address: str, model: str, calls: Sequence[Call]) -> list[Outcome]:
    """The outcomes of calls of JavaScript's package, in order."""
    wanted = [
        {"base": f"http://{address}{call.base}", "method": call.method, "arguments": _in_order(call, model)}
        for call in calls
    ]
    done = subprocess.run(
        ["node", "ask.mjs"],
        cwd=javascript_folder(),
        input=json.dumps({"calls": wanted}),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [Outcome(**{**one, "error": one.get("error") or {}}) for one in json.loads(done.stdout)]


def _asked(address: str, model: str, call: Call) -> Outcome:
    positional, named = _arguments(call, model)
    if call.method == POST:
        named["cast_to"] = object
    base = f"http://{address}{call.base}"
    with openai.OpenAI(base_url=base, api_key="none", max_retries=0, timeout=_ANSWER_SECONDS) as client:
        try:
            answer = attrgetter(call.method)(client)(*positional, **named)
            if isinstance(answer, openai.Stream):
                return Outcome([event.model_dump() for event in answer])
            return Outcome(answer.model_dump(mode="json") if isinstance(answer, BaseModel) else answer)
        except openai.APIStatusError as error:
            body = error.body if isinstance(error.body, dict) else {}
            return Outcome(None, error.status_code, body, error.message)


def _arguments(call: Call, model: str) -> tuple[list[str], dict[str, Any]]:
    named: dict[str, Any] = json.loads(json.dumps(call.given).replace("{name}", model))
    return [call.place.replace("{name}", model)] if call.place else [], named


def _in_order(call: Call, model: str) -> list[Any]:
    positional, named = _arguments(call, model)
    return [*positional, named] if named else positional


def javascript_folder() -> Path:
    """The folder with the script and JavaScript's package, which npm installs in the cache folder."""
    if shutil.which("npm") is None and debian_packages.can_install():
        debian_packages.install(["nodejs", "npm"])
    folder = cache_root() / "openai-javascript"
    with exclusive("openai-javascript"):
        folder.mkdir(parents=True, exist_ok=True)
        lock = _HERE / "package-lock.json"
        is_current = (installed := folder / lock.name).is_file() and installed.read_bytes() == lock.read_bytes()
        for name in _INPUTS:
            if name != lock.name:
                shutil.copy(_HERE / name, folder)
        if not is_current:
            given = folder / "npm-shrinkwrap.json"
            shutil.copy(lock, given)
            subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=folder, check=True, timeout=_SECONDS)
            shutil.copy(lock, folder)
    return folder
