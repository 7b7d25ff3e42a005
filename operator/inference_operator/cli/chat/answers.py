"""A conversation in the OpenAI API: its requests, the events and times of answers, and what a refusal means. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from inference_operator.cli.parser import harmless
from inference_operator.manifest import Manifest
from inference_operator.sentences import counted
from inference_operator.views.raw import mapping, objects

CHAT_PATH = "/v1/chat/completions"
COMPLETIONS_PATH = "/v1/completions"
_DATA, _DONE = "data:", "[DONE]"
_NO_TEMPLATE = ("chat template", "chat_template")
"""Words of engines about a model without a chat template (vLLM 0.32.0, transformers 5)."""
MAX_MESSAGE = 500
"""Characters of an engine's message that are shown."""


@dataclass(frozen=True, slots=True)
class AnswerDelta:
    text: str = ""
    reasoning: str = ""
    tokens: int | None = None
    """Tokens of the whole answer, in the last event."""
    error: str = ""


def answer_delta(line: str) -> AnswerDelta | None:
    r"""The event of a line; None for a line without one.

    Examples:
        >>> answer_delta('data: {"choices": [{"delta": {"content": "Hi"}}]}\n')
        AnswerDelta(text='Hi', reasoning='', tokens=None, error='')
        >>> answer_delta('data: {"choices": [{"text": "Hi"}]}').text
        'Hi'
        >>> answer_delta('data: {"choices": [], "usage": {"completion_tokens": 7}}').tokens
        7
        >>> answer_delta("data: [DONE]") is answer_delta(": comment") is answer_delta("data: {") is None
        True
    """
    content = line.strip().removeprefix(_DATA).strip()
    if not line.startswith(_DATA) or content == _DONE:
        return None
    try:
        event = json.loads(content)
    except ValueError:
        return None
    if not isinstance(event, dict):
        return None
    choice: Manifest = dict(next(iter(objects(event, "choices")), {}))
    part = mapping(choice, "delta")
    tokens = mapping(event, "usage").get("completion_tokens")
    return AnswerDelta(
        text=str(part.get("content") or choice.get("text") or ""),
        reasoning=str(part.get("reasoning_content") or part.get("reasoning") or ""),
        tokens=tokens if isinstance(tokens, int) else None,
        error=(error_message(content) or "the engine failed") if event.get("error") else "",
    )


def error_message(body: str) -> str:
    """The message in the body of a refusal, in one line; empty if it has none.

    Examples:
        >>> error_message('{"error": {"message": "too long"}}'), error_message('{"detail": "Not Found"}')
        ('too long', 'Not Found')
        >>> error_message("<html>")
        ''
    """
    try:
        found = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(found, dict):
        return ""
    error = found.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    said = message or found.get("message") or found.get("detail")
    return harmless(" ".join(said.split()))[:MAX_MESSAGE] if isinstance(said, str) else ""


class AnswerRefusedError(Exception):
    """The service refuses a request, which may be sent again after some seconds if it says so."""

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status
        self.message = message
        self.retry_after = retry_after

    @property
    def lacks_template(self) -> bool:
        return any(words in self.message.lower() for words in _NO_TEMPLATE)


class AnswerBrokenError(Exception):
    """The connection ended before the answer did; the message says why."""


@dataclass(slots=True)
class AnswerTimes:
    """The times of one answer, in seconds of a monotonic clock."""

    begin: float
    pieces: list[float] = field(default_factory=list)
    """When each piece of the text arrived. Engines send one for each token, or for several."""
    counted: int | None = None
    """Tokens of the answer, as the engine tells; None if it does not."""
    ended: bool = False

    def add(self, delta: AnswerDelta, at: float) -> None:
        if delta.text or delta.reasoning:
            self.pieces.append(at)
        if delta.tokens is not None:
            self.counted = delta.tokens

    @property
    def tokens(self) -> int:
        """Tokens of the answer; pieces, if the engine does not count."""
        return len(self.pieces) if self.counted is None else self.counted

    @property
    def ttft(self) -> float | None:
        return self.pieces[0] - self.begin if self.pieces else None

    @property
    def gaps(self) -> Sequence[float]:
        return [after - before for before, after in pairwise(self.pieces)]

    @property
    def tpot(self) -> float | None:
        """Mean seconds of each token after the first; None with one token."""
        if self.tokens <= 1 or len(self.pieces) <= 1:
            return None
        return (self.pieces[-1] - self.pieces[0]) / (self.tokens - 1)

    @property
    def words(self) -> str:
        if self.ttft is None:
            return "no token"
        rate = f", {1 / self.tpot:,.1f} tokens/s" if self.tpot else ""
        return f"first token after {self.ttft:.2f} s, {counted(self.tokens, 'token')}{rate}"


@dataclass(slots=True)
class Conversation:
    model: str
    system: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    has_template: bool = True
    """Whether the model has a chat template. Without one it only continues texts."""
    turns: list[tuple[str, str]] = field(default_factory=list)

    def request(self, question: str) -> tuple[str, Manifest]:
        given = {"model": self.model, "max_tokens": self.max_tokens, "temperature": self.temperature}
        common: Manifest = {name: value for name, value in given.items() if value is not None}
        common |= {"stream": True, "stream_options": {"include_usage": True}}  # ends with the number of its tokens
        turns = [one for asked, answered in self.turns for one in (("user", asked), ("assistant", answered))]
        said = [*([("system", self.system)] if self.system else []), *turns, ("user", question)]
        if self.has_template:
            return CHAT_PATH, {**common, "messages": [{"role": role, "content": text} for role, text in said]}
        return COMPLETIONS_PATH, {**common, "prompt": "\n\n".join(text for _, text in said)}
