r"""The entry of every text that others write: logs, termination messages, Events, messages of Kubernetes and of Jobs.

1. The end of a text is read, and of each line its beginning. So the work has a bound that no text can raise.
2. Nothing next to a cut is shown. A cut may leave the rest of a secret without the word before it that tells it: so the
   last word before a cut goes, and behind one the rest of its line, and lines of a single word, such as a value or a
   line of PEM.
3. Control characters go before secrets are searched. A terminal would carry them out, and they could split a secret.
"""

import re

from inference_operator.views.redact import redacted

LINE_CHARACTERS = 4096
"""What is read of a line, from its beginning, where programs say what has happened."""
LOG_CHARACTERS = 64 * 1024
"""What is read of a log, from its end."""
LOG_LINES = 8192
"""Lines of a log that are read: a progress bar draws many."""
MESSAGE_CHARACTERS = 16 * 1024
"""What is read of a message, of which less is shown."""
MAX_CAUSE_LENGTH = 1024
"""Characters of a message that are shown. Kubelets may quote a whole log, and a condition must stay readable."""

_LOG_AS_MESSAGE_BYTES = 2048
"""Of a log that the kubelet makes a termination message of, from its end (Kubernetes 1.36,
pkg/kubelet/container/runtime.go, `MaxContainerTerminationMessageLogLength`)."""
_MESSAGE_BYTES, _POD_MESSAGE_BYTES = 4096, 12288
"""Of a termination message, and of those of all containers of a pod, each an equal share, from its beginning
(`MaxContainerTerminationMessageLength`, `MaxPodTerminationMessageLogLength`)."""
_MAX_CONTAINERS = 64
"""Containers of a pod for whose share a cut is recognised."""

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]+"
    "(?:(?<=\x1b)\\[[0-9;?]{0,32}[@-~])?"
)
"""Control characters, marks that turn the direction of writing or have no width, and colours of a terminal."""


def log_tail(log: str, *, lines: int, size: int, characters: int = LOG_CHARACTERS) -> str:
    r"""The end of a log.

    Args:
        lines: how many of the last lines were requested; so many or more may begin behind a cut.
        size: how many bytes were requested; so many or more may end at a cut.
        characters: how much of it is wanted.

    Examples:
        >>> log_tail("hunter2\n\x1b[31mwith key=a\x1b[0m\rKeyError: 'layers.0'\n", lines=2, size=1024)
        "with key=[hidden]\nKeyError: 'layers.0'\n"
    """
    return _shown(
        log,
        characters,
        is_cut_before=log.count("\n") + (not log.endswith("\n")) >= lines,
        is_cut_after=_bytes(log) >= size,
    )


def termination_message(message: str) -> str:
    size = _bytes(message)
    is_cut = size >= _LOG_AS_MESSAGE_BYTES
    shares = (_POD_MESSAGE_BYTES // containers for containers in range(1, _MAX_CONTAINERS + 1))
    whole = message.partition("\n")[2] if is_cut else message
    is_cut_after = size >= _MESSAGE_BYTES or size in shares
    return _shown(whole, LOG_CHARACTERS, is_cut_before=is_cut, is_cut_after=is_cut_after).strip()


def one_line(text: object) -> str:
    """A message as one line of bounded length. The end is kept, where errors have their cause."""
    line = " ".join(_shown(str(text or ""), MESSAGE_CHARACTERS).split())
    return line if len(line) <= MAX_CAUSE_LENGTH else f"… {line[-MAX_CAUSE_LENGTH:]}"


def _shown(text: str, characters: int, *, is_cut_before: bool = False, is_cut_after: bool = False) -> str:
    """The end of a text, without what is next to a cut, control characters and secrets."""
    every = text[-LOG_LINES * LINE_CHARACTERS :].replace("\r\n", "\n").replace("\r", "\n").rsplit("\n", LOG_LINES)
    kept: list[str] = []
    for line in reversed(every[-LOG_LINES:]):
        characters -= min(len(line), LINE_CHARACTERS) + 1
        if characters < 0:
            break
        kept.append(line)
    is_behind_cut = is_cut_before or len(kept) < len(every)
    shown: list[str] = []
    for line in reversed(kept):
        if is_behind_cut and len(line.split(None, 1)) <= 1:
            continue
        is_behind_cut = len(line) > LINE_CHARACTERS
        shown.append(_cut(line[:LINE_CHARACTERS]) if is_behind_cut else line)
    if is_cut_after and shown:
        shown[-1] = _cut(shown[-1])
    return redacted(_CONTROL.sub("", "\n".join(shown)))


def _cut(line: str) -> str:
    """A line without its last word, behind which it was cut."""
    return f"{line[: max(line.rfind(' '), line.rfind(chr(9))) + 1]}…"


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
