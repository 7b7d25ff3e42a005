"""A conversation with a model: the requests that continue it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inference_operator.cli.answer_stream import CHAT_PATH, COMPLETIONS_PATH
from inference_operator.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Sampling:
    """How answers are made; None leaves it to the engine."""

    max_tokens: int | None = None
    temperature: float | None = None

    @property
    def fields(self) -> Manifest:
        """The fields of a request, of a stream that ends with the number of its tokens."""
        given = {"max_tokens": self.max_tokens, "temperature": self.temperature}
        chosen = {name: value for name, value in given.items() if value is not None}
        return {**chosen, "stream": True, "stream_options": {"include_usage": True}}


@dataclass(slots=True)
class Conversation:
    """The questions and answers until now."""

    model: str
    system: str = ""
    sampling: Sampling = field(default_factory=Sampling)
    has_template: bool = True
    """Whether the model has a chat template. Without one it only continues texts."""
    turns: list[tuple[str, str]] = field(default_factory=list)
    """Questions with their answers."""

    def request(self, question: str) -> tuple[str, Manifest]:
        r"""The path and body of the request for the next answer.

        Examples:
            >>> chat = Conversation("qwen", system="Be brief.", turns=[("Hi", "Hello")])
            >>> path, body = chat.request("Why?")
            >>> path, [one["role"] for one in body["messages"]]
            ('/v1/chat/completions', ['system', 'user', 'assistant', 'user'])
            >>> chat.has_template = False
            >>> chat.request("Why?")[1]["prompt"]
            'Be brief.\n\nHi\n\nHello\n\nWhy?'
        """
        common = {"model": self.model, **self.sampling.fields}
        said = [*self._said(), ("user", question)]
        if self.has_template:
            return CHAT_PATH, {**common, "messages": [{"role": role, "content": text} for role, text in said]}
        return COMPLETIONS_PATH, {**common, "prompt": "\n\n".join(text for _, text in said)}

    def _said(self) -> Sequence[tuple[str, str]]:
        system = [("system", self.system)] if self.system else []
        turns = [one for asked, answered in self.turns for one in (("user", asked), ("assistant", answered))]
        return [*system, *turns]
