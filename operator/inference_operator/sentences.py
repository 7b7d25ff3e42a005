"""Text for users that is put together from whole sentences."""


def sentences(*parts: str) -> str:
    """The sentences as one text. A part may be empty, or hold several sentences.

    Examples:
        >>> sentences("No router is ready.", "", "Add a node.")
        'No router is ready. Add a node.'
    """
    return " ".join(part for part in parts if part)
