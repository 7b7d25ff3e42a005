"""Tables that are text files of a package: blocks of lines with an empty line between them."""

from importlib.resources import files


def blocks(package: str, name: str) -> list[list[str]]:
    """The lines of each block; those that begin with `#` are comments."""
    text = files(package).joinpath(f"{name}.txt").read_text(encoding="utf-8")
    lines = ([line for line in block.splitlines() if not line.startswith("#")] for block in text.strip().split("\n\n"))
    return [block for block in lines if block]
