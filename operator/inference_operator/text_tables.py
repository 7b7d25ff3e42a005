"""Tables that are text files of a package."""

from importlib.resources import files


def text_of(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")


def rows(package: str, name: str) -> list[list[str]]:
    """The words of each line."""
    return [line.split() for line in text_of(package, name).splitlines()]


def blocks(package: str, name: str) -> list[list[str]]:
    """The lines of each block of a `.txt` file, with an empty line between blocks; those with `#` are comments."""
    text = text_of(package, f"{name}.txt").strip().split("\n\n")
    lines = ([line for line in block.splitlines() if not line.startswith("#")] for block in text)
    return [block for block in lines if block]


def titled(package: str, name: str) -> dict[str, dict[str, str]]:
    """The text of each name, by the title of its block: a block is its title, and lines `NAME NAME...: TEXT`."""
    lines = {title: [line.partition(": ") for line in rest] for title, *rest in blocks(package, name)}
    return {title: {one: text for names, _, text in rest for one in names.split()} for title, rest in lines.items()}
