"""Label and field selectors with the rules of the API server."""

from inference_operator.manifest import Manifest


def is_labelled(manifest: Manifest, selector: str | None) -> bool:
    wanted = dict(part.split("=", 1) for part in selector.split(",")) if selector else {}
    return wanted.items() <= (manifest["metadata"].get("labels") or {}).items()


def has_fields(manifest: Manifest, selector: str | None) -> bool:
    """Field selectors: `a.b=c` and `a.b!=c`; what is absent is empty."""
    for part in selector.split(",") if selector else ():
        path, _, wanted = part.partition("=")
        value: object = manifest
        for name in path.rstrip("!").split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if ((value or "") == wanted) == path.endswith("!"):
            return False
    return True
