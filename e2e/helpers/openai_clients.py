"""Clients of the `openai` package that ask a service all the time, each on a connection that it keeps."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event

from openai import OpenAI, OpenAIError

from e2e.helpers.served_deployment import PROMPT, Served

_TOKENS = 8
_ANSWER_SECONDS = 60.0


@dataclass(slots=True)
class Answers:
    """What all clients have got."""

    right: int = 0
    failures: list[str] = field(default_factory=list)


@contextmanager
def openai_clients(served: Served, number: int, *, gateway: Served | None = None) -> Iterator[Answers]:
    """Ask, plain and streamed in turn, until the block ends, at a gateway if there is one; nothing is sent again."""
    expected, over, answers = served.complete(PROMPT), Event(), Answers()
    with ThreadPoolExecutor(number) as threads:
        try:
            for _ in range(number):
                threads.submit(_ask, (gateway or served).address, served.name, expected, over, answers)
            yield answers
        finally:
            over.set()


def _ask(address: str, model: str, expected: str, over: Event, answers: Answers) -> None:
    with OpenAI(base_url=f"http://{address}/v1", api_key="none", max_retries=0, timeout=_ANSWER_SECONDS) as client:
        while not over.is_set():
            try:
                for text in (_plain(client, model), _streamed(client, model)):
                    if text == expected:
                        answers.right += 1
                    else:
                        answers.failures.append(f"another answer: {text!r}")
            except OpenAIError as error:
                answers.failures.append(repr(error))


def _plain(client: OpenAI, model: str) -> str:
    answer = client.completions.create(model=model, prompt=PROMPT, max_tokens=_TOKENS, temperature=0)
    return answer.choices[0].text


def _streamed(client: OpenAI, model: str) -> str:
    parts = client.completions.create(model=model, prompt=PROMPT, max_tokens=_TOKENS, temperature=0, stream=True)
    return "".join(part.choices[0].text for part in parts if part.choices)
