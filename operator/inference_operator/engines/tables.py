"""Reads the text tables that lie beside the modules of engines."""

from importlib.resources import files


def text_of(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")


def rows(package: str, name: str) -> list[list[str]]:
    """The words of each line."""
    return [line.split() for line in text_of(package, name).splitlines()]


def told(package: str, name: str) -> dict[str, dict[str, str]]:
    """What is told of each name, by the title of its block.

    A block is a line with its title, and lines `NAME NAME...: TEXT`. A line that begins with `#` is a comment.
    """
    blocks = [block.splitlines() for block in text_of(package, name).split("\n\n")]
    lines = {title: [line.partition(": ") for line in rest if line[0] != "#"] for title, *rest in blocks}
    return {title: {one: text for names, _, text in rest for one in names.split()} for title, rest in lines.items()}
