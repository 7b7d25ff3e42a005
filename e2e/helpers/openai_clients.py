"""Clients of the `openai` package that ask a service all the time, each on a connection that it keeps."""

import random
import uuid
from collections.abc import Iterator, Mapping
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
def openai_clients(
    served: Served, number: int, *, gateway: Served | None = None, expected: Mapping[str, str] | None = None
) -> Iterator[Answers]:
    """Ask, plain and streamed in turn, until the block ends, at a gateway if there is one; nothing is sent again.

    Args:
        expected: the right answers by prompt; of these prompts no engine has anything cached. Else it is one prompt.
    """
    right, over, answers = expected or {PROMPT: served.complete(PROMPT)}, Event(), Answers()
    with ThreadPoolExecutor(number) as threads:
        try:
            for _ in range(number):
                address = (gateway or served).address
                threads.submit(_ask, address, served.name, right, over, answers, is_cached=expected is None)
            yield answers
        finally:
            over.set()


def _ask(address: str, model: str, right: Mapping[str, str], over: Event, answers: Answers, *, is_cached: bool) -> None:
    prompts = list(right)
    with OpenAI(base_url=f"http://{address}/v1", api_key="none", max_retries=0, timeout=_ANSWER_SECONDS) as client:
        while not over.is_set():
            prompt = random.choice(prompts)  # noqa: S311 - test data
            try:
                for ask in (_plain, _streamed):
                    text = ask(client, model, prompt, None if is_cached else {"cache_salt": uuid.uuid4().hex})
                    if text == right[prompt]:
                        answers.right += 1
                    else:
                        answers.failures.append(f"another answer: {text!r}")
            except OpenAIError as error:
                answers.failures.append(repr(error))


def _plain(client: OpenAI, model: str, prompt: str, more: Mapping[str, str] | None) -> str:
    answer = client.completions.create(model=model, prompt=prompt, max_tokens=_TOKENS, temperature=0, extra_body=more)
    return answer.choices[0].text


def _streamed(client: OpenAI, model: str, prompt: str, more: Mapping[str, str] | None) -> str:
    parts = client.completions.create(
        model=model, prompt=prompt, max_tokens=_TOKENS, temperature=0, stream=True, extra_body=more
    )
    return "".join(part.choices[0].text for part in parts if part.choices)
