"""Programs of pods with shorter waits than their defaults: the text is the shipped one, and only its call differs."""

from collections.abc import Sequence

from inference_operator.engines.programs import PROGRAMS_VARIABLE


def calling(command: Sequence[str], call: str) -> list[str]:
    """The command of a program (`engines/programs.py`) that makes this call in place of its own `main()`.

    Examples:
        >>> print(calling(("-c", f"import os; exec(os.environ.pop('{PROGRAMS_VARIABLE}'))"), "main(0.1)")[1])
        import os; own = {}; exec(os.environ.pop('INFERENCE_OPERATOR_PROGRAMS'), own); exec('main(0.1)', own)
    """
    return [_loader(word, call) if PROGRAMS_VARIABLE in word else word for word in command]


def _loader(loader: str, call: str) -> str:
    before, begin, text = loader.partition("exec(")
    return f"{before}own = {{}}; {begin}{text.removesuffix(')')}, own); exec({call!r}, own)"
