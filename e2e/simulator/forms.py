"""The form of an engine's answers and metrics, without their values; `recorded.json` is that of vLLM 0.32.

    python -m e2e.simulator.forms URL MODEL > e2e/simulator/recorded.json

asks an engine that runs. The recording is that of `vllm serve` with the arguments of `manifests/samples/cpu-oci.yaml`.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

RECORDED = Path(__file__).with_name("recorded.json")
PREFIX = "vllm:"
CONFIG = "vllm:cache_config_info"
"""Its labels are the engine's settings, and other for each engine."""
_USER = {"role": "user", "content": "Tell me about otters"}
_TEXT: dict[str, Any] = {"prompt": "Tell me about otters", "max_tokens": 4, "temperature": 0}
_CHAT: dict[str, Any] = {"messages": [_USER], "max_tokens": 4, "temperature": 0}
_STREAM: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
QUESTIONS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "models": ("/v1/models", None),
    "version": ("/version", None),
    "completion": ("/v1/completions", _TEXT),
    "streamed completion": ("/v1/completions", {**_TEXT, **_STREAM}),
    "chat completion": ("/v1/chat/completions", _CHAT),
    "streamed chat completion": ("/v1/chat/completions", {**_CHAT, **_STREAM}),
    "unknown model": ("/v1/completions", {**_TEXT, "model": "other"}),
    "prompt too long": ("/v1/completions", {**_TEXT, "max_tokens": 10_000_000}),
    "no messages": ("/v1/chat/completions", {}),
}


def form(value: object) -> object:
    """The types of a JSON value; the items of a list count once each.

    Examples:
        >>> form({"id": "a", "n": 1.5, "ids": [1, 2], "none": None})
        {'id': 'str', 'n': 'float', 'ids': ['int'], 'none': 'NoneType'}
    """
    if isinstance(value, dict):
        return {key: form(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return _distinct([form(inner) for inner in value])
    return type(value).__name__


def metric_forms(text: str) -> dict[str, Any]:
    """Type and labels of each metric of the engine, by name."""
    found: dict[str, Any] = {}
    for family in text_string_to_metric_families(text):
        if not family.name.startswith(PREFIX) or not family.samples or family.name.endswith("_created"):
            continue
        labels = {key for sample in family.samples for key in sample.labels if key != "le"}
        listed = [] if family.name == CONFIG else sorted(labels)
        values = {key: sorted({s.labels.get(key, "") for s in family.samples}) for key in listed if key != "model_name"}
        found[family.name] = {"type": family.type, "labels": listed, "values": values}
    return dict(sorted(found.items()))


async def forms(url: str, model: str) -> dict[str, Any]:
    """All forms of the engine at a URL."""
    async with aiohttp.ClientSession() as session:
        answers = {name: await _asked(session, url, model, *question) for name, question in QUESTIONS.items()}
        async with session.get(f"{url}/metrics") as response:
            return {"answers": answers, "metrics": metric_forms(await response.text())}


async def _asked(
    session: aiohttp.ClientSession, url: str, model: str, path: str, body: dict[str, Any] | None
) -> dict[str, Any]:
    call = session.get(url + path) if body is None else session.post(url + path, json={"model": model, **body})
    async with call as response:
        kind, text = response.headers["Content-Type"], await response.text()
        if kind.startswith("text/event-stream"):
            events = [line.removeprefix("data: ") for line in text.splitlines() if line]
            shown: object = _distinct([event if event == "[DONE]" else form(json.loads(event)) for event in events])
        else:
            shown = form(json.loads(text))
        return {"status": response.status, "type": kind, "form": shown}


def _distinct(values: list[Any]) -> list[Any]:
    """The values in order, each once."""
    return [value for number, value in enumerate(values) if value not in values[:number]]


def recording(found: dict[str, Any]) -> str:
    """The forms as JSON, one answer or metric a line."""
    sections = []
    for section, entries in found.items():
        lines = (f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
        sections.append(f' "{section}": {{\n' + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(sections) + "\n}"


if __name__ == "__main__":
    print(recording(asyncio.run(forms(sys.argv[1], sys.argv[2]))))
