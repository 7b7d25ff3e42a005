"""Text for users that is put together from whole sentences."""

from collections.abc import Sequence


def sentences(*parts: str) -> str:
    """The sentences as one text. A part may be empty, or hold several sentences.

    Examples:
        >>> sentences("No router is ready.", "", "Add a node.")
        'No router is ready. Add a node.'
    """
    return " ".join(part for part in parts if part)


def counted(number: int, name: str) -> str:
    """A number of things.

    Examples:
        >>> counted(1, "engine"), counted(1200, "engine"), counted(0, "engine")
        ('1 engine', '1,200 engines', '0 engines')
    """
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def first_of(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are.

    Examples:
        >>> first_of(["a", "b", "c"], 2), first_of(["a"], 2)
        ('a, b and 1 more', 'a')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
