"""What a client may ask of a small chat model without parsers, and what it must get: an answer, or an error that helps.

A call names a method of the `openai` package as both languages know it. `{name}` is the model.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inference_operator.api.generation import MOST_CHOICES

QUESTION = [{"role": "user", "content": "Tell me about otters"}]
WORDS = 8
SCHEMA = {
    "type": "object",
    "properties": {"animal": {"enum": ["otter", "beaver"]}},
    "required": ["animal"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
TOO_LONG = "otter " * 3_000
"""More tokens than the context of the model."""

CHAT, COMPLETIONS, POST, RETRIEVE = "chat.completions.create", "completions.create", "post", "models.retrieve"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call."""

    answer: Any = None
    """The answer, or the events of a stream; None where there is an error."""
    status: int = 200
    error: Mapping[str, Any] = field(default_factory=dict)
    """The object `error` of the body."""
    message: str = ""
    """What the client's exception says."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer is one for which this holds."""

    holds: Callable[[Any], object]

    def fault(self, outcome: Outcome) -> str:
        """What is wrong with an outcome; empty if nothing is."""
        if outcome.status != 200:  # noqa: PLR2004 - HTTP
            return f"{outcome.status}: {outcome.message}"
        return "" if self.holds(outcome.answer) else f"answers {json.dumps(outcome.answer)[:500]}"


@dataclass(frozen=True, slots=True)
class Refused:
    """The answer is an error of the OpenAI API whose message has this phrase."""

    status: int
    phrase: str
    code: str | int | None = None
    """Its code, a word; or the status, which engines give."""

    def fault(self, outcome: Outcome) -> str:
        """What is wrong with an outcome; empty if nothing is."""
        error = outcome.error
        if outcome.status != self.status or set(error) != {"message", "type", "param", "code"}:
            return f"{outcome.status}, {error}, {outcome.message}, {json.dumps(outcome.answer)[:500]}"
        right = error["code"] == (self.code or self.status) and isinstance(error["type"], str)
        is_shown = self.phrase in error["message"] and self.phrase in outcome.message
        return "" if right and is_shown else f"{error}; the client says {outcome.message}"


@dataclass(frozen=True, slots=True)
class Call:
    """A call and what is expected of it."""

    title: str
    method: str
    expected: Answered | Refused
    given: Mapping[str, Any] = field(default_factory=dict)
    """Its arguments by name."""
    place: str = ""
    """Its argument without a name: a model's, or a path."""
    base: str = "/v1"
    """What the base URL ends in."""


def chat(title: str, expected: Answered | Refused, **more: Any) -> Call:  # noqa: ANN401 - any JSON
    """A chat completion."""
    given = {"model": "{name}", "messages": QUESTION, "max_tokens": WORDS, "temperature": 0, **more}
    return Call(f"chat with {title}", CHAT, expected, given)


def completion(title: str, expected: Answered | Refused, **more: Any) -> Call:  # noqa: ANN401 - any JSON
    """A completion."""
    given = {"model": "{name}", "prompt": "Tell me about otters", "max_tokens": WORDS, "temperature": 0, **more}
    return Call(f"completion with {title}", COMPLETIONS, expected, given)


def _choices(answer: Any) -> Sequence[Any]:  # noqa: ANN401 - any JSON
    found: Sequence[Any] = answer["choices"]
    return found


def _texts(answer: Any) -> list[str]:  # noqa: ANN401 - any JSON
    return [one["text"] if "text" in one else one["message"]["content"] for one in _choices(answer)]


def _is_full(answer: Any) -> bool:  # noqa: ANN401 - any JSON
    return [len(text.split()) for text in _texts(answer)] == [WORDS]


def _ends_with_usage(events: Any) -> bool:  # noqa: ANN401 - any JSON
    return not events[-1]["choices"] and events[-1]["usage"]["completion_tokens"] == WORDS


def _has_logprobs(answer: Any) -> bool:  # noqa: ANN401 - any JSON
    content = _choices(answer)[0]["logprobs"]["content"]
    return len(content) == WORDS and all(len(one["top_logprobs"]) == 2 for one in content)  # noqa: PLR2004 - as asked


def _follows_schema(answer: Any) -> bool:  # noqa: ANN401 - any JSON
    return json.loads(_texts(answer)[0])["animal"] in {"otter", "beaver"}


FULL = Answered(_is_full)
NO_EMBEDDINGS = Refused(404, "is no embedding model", "unsupported_by_model")
CALLS = (
    chat("nothing more", FULL),
    chat("a stream and its usage", Answered(_ends_with_usage), stream=True, stream_options={"include_usage": True}),
    chat("n", Answered(lambda a: len(_choices(a)) == 3), n=3, temperature=1),  # noqa: PLR2004 - as asked
    chat("n that is too large", Refused(400, f"must be at most {MOST_CHOICES}"), n=MOST_CHOICES + 1, temperature=1),
    chat("a seed", FULL, seed=7, temperature=1),
    chat("stop", Answered(lambda a: _choices(a)[0]["finish_reason"] in {"stop", "length"}), stop=["e", "a"]),
    chat("logprobs", Answered(_has_logprobs), logprobs=True, top_logprobs=2),
    chat("penalties", FULL, frequency_penalty=1.5, presence_penalty=-1.5, logit_bias={"5": 3}, top_p=0.5),
    chat("a penalty that is too large", Refused(400, "presence_penalty"), presence_penalty=3),
    chat("tools", Refused(400, "--tool-call-parser"), tools=[WEATHER]),
    chat(
        "a JSON schema",
        Answered(_follows_schema),
        max_tokens=100,
        response_format={"type": "json_schema", "json_schema": {"name": "animal", "schema": SCHEMA}},
    ),
    chat("no message", Refused(400, "at least one message"), messages=[]),
    chat(
        "a prompt that is too long",
        Refused(400, "maximum context length"),
        messages=[{**QUESTION[0], "content": TOO_LONG}],
    ),
    chat("another model", Refused(404, "`nobody` does not exist"), model="nobody"),
    completion("nothing more", FULL),
    completion(
        "a stream and its usage", Answered(_ends_with_usage), stream=True, stream_options={"include_usage": True}
    ),
    completion("logprobs", Answered(lambda a: len(_choices(a)[0]["logprobs"]["tokens"]) == WORDS), logprobs=2),
    completion("echo", Answered(lambda a: "otters" in _texts(a)[0]), echo=True),
    completion("an empty prompt", Refused(400, "prompt"), prompt=""),
    completion("a prompt that is too long", Refused(400, "maximum context length"), prompt=TOO_LONG),
    Call(
        "a response",
        "responses.create",
        Answered(lambda a: a["status"] in {"completed", "incomplete"}),
        {"model": "{name}", "input": "Tell me about otters", "max_output_tokens": WORDS},
    ),
    Call("embeddings", "embeddings.create", NO_EMBEDDINGS, {"model": "{name}", "input": "otters"}),
    Call("rerank", POST, NO_EMBEDDINGS, {"body": {"model": "{name}", "query": "a", "documents": ["b"]}}, "/rerank"),
    Call("a list of models", "models.list", Answered(lambda a: len(a["data"]) == 1)),
    Call("a model", RETRIEVE, Answered(lambda a: a["object"] == "model"), place="{name}"),
    Call("another model", RETRIEVE, Refused(404, "no model `nobody`", "model_not_found"), place="nobody"),
    Call(
        "a chat with a base URL without /v1",
        CHAT,
        Refused(404, "use `/v1/chat/completions`", "unknown_url"),
        {"model": "{name}", "messages": QUESTION},
        base="",
    ),
    Call(
        "a model with a base URL without /v1",
        RETRIEVE,
        Refused(404, "`/v1/models/x`", "unknown_url"),
        place="x",
        base="",
    ),
)
