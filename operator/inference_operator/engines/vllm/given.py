"""What arguments say of an option, as vLLM's own parser understands them: of several, the last one counts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inference_operator.engines.vllm.options import meant, written_option


@dataclass(frozen=True, slots=True)
class Given:
    """One option among arguments."""

    index: int
    """Where it is."""
    spelling: str
    """As it is written, without its value."""
    key: str
    """A key inside the option's value, where one follows a dot."""
    value: str | None
    """None: there is none."""


def given(args: Sequence[str], option: str) -> Iterator[Given]:
    """Every place at which arguments set an option.

    Examples:
        >>> args = ["-sc.model=a", "--speculative_config", "{}"]
        >>> [(one.key, one.value) for one in given(args, "--speculative-config")]
        [('model', 'a'), ('', '{}')]
    """
    for index, argument in enumerate(args):
        spelling = written_option(argument)
        if spelling and list(meant(spelling)) == [option]:
            name, stated, value = argument.partition("=")
            said = value if stated else next(iter(args[index + 1 : index + 2]), None)
            yield Given(index, spelling, name.partition(".")[2].replace("-", "_"), said)


def value_of(args: Sequence[str], option: str) -> str | None:
    """The value of an option; None where it has none.

    Examples:
        >>> value_of(["--revision", "v1", "--revis=v2"], "--revision"), value_of(["--revision"], "--revision")
        ('v2', None)
    """
    return next((one.value for one in reversed(list(given(args, option)))), None)


def whole_of(args: Sequence[str], option: str) -> int | None:
    """The value of an option as a whole number; None where it is none, which vLLM refuses."""
    text = value_of(args, option) or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None


MOST_DIGITS = 9
"""Of a number of tokens, adapters or ranks."""


def is_on(args: Sequence[str], option: str) -> bool:
    """Whether arguments switch an option on.

    Examples:
        >>> is_on(["--enable-lora"], "--enable-lora"), is_on(["--enable-lora", "--no-enable-lora"], "--enable-lora")
        (True, False)
    """
    found = [one.spelling for one in given(args, option)]
    return bool(found) and not found[-1].startswith("--no-")
