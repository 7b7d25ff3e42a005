"""Golden files: a reviewed file for each expected text, with a suitable file extension."""

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from inference_operator.cli.output import dump
from inference_operator.manifest import Manifest

TEXTS = Path(__file__).parents[1] / "golden_texts"
"""Long texts of manifests: configurations and programs, each once, under the hash that golden manifests name."""
LONGEST_SHOWN = 2_000
"""Characters of a text that a golden manifest shows itself: annotations with a plan are shorter."""
MOST_LINES_SHOWN = 10
"""Lines of such a text: programs are longer."""
HASH_LENGTH = 12


class GoldenFile(SingleFileSnapshotExtension):
    """A file of text, under its own name, in `__snapshots__/<test module>/`."""

    _write_mode = WriteMode.TEXT

    @classmethod
    def ending(cls, extension: str) -> type["GoldenFile"]:
        """The same, with an extension that editors know."""
        return type(cls.__name__, (cls,), {"file_extension": extension})


def assert_golden(snapshot: SnapshotAssertion, manifests: Iterable[Manifest]) -> None:
    """Compares objects with the golden file of the test; of long texts their hashes.

    `--snapshot-update` also writes the long texts. A text without a file is shown as the difference from the most
    similar one that has a file.

    Raises:
        AssertionError: the objects differ.
    """
    texts: dict[str, str] = {}
    shown = dump([{name: _shortened(part, name, texts) for name, part in manifest.items()} for manifest in manifests])
    if snapshot.session.update_snapshots:
        TEXTS.mkdir(exist_ok=True)
        for name, text in texts.items():
            (TEXTS / name).write_text(text)
    assert shown == snapshot.use_extension(GoldenFile.ending("yaml")), "\n".join(_differences(texts))


def _shortened(part: object, key: str, texts: dict[str, str]) -> object:
    match part:
        case Mapping():
            return {name: _shortened(value, str(name), texts) for name, value in part.items()}
        case list():
            return [_shortened(value, key, texts) for value in part]
        case str() if len(part) > LONGEST_SHOWN or part.count("\n") > MOST_LINES_SHOWN:
            name = f"{key.rpartition('/')[2]}-{hashlib.sha256(part.encode()).hexdigest()[:HASH_LENGTH]}"
            texts[name] = _readable(part, texts)
            return f"golden_texts/{name}"
        case _:
            return part


def _readable(text: str, texts: dict[str, str]) -> str:
    """A JSON text on several lines, with its own long texts as hashes; any other text as it is."""
    if not text.startswith("{"):
        return text
    return json.dumps(_shortened(json.loads(text), "", texts), indent=1) + "\n"


def _differences(texts: Mapping[str, str]) -> Iterable[str]:
    for name, text in texts.items():
        if not (TEXTS / name).exists():
            kind = name[: -HASH_LENGTH - 1]
            others = [path.read_text() for path in sorted(TEXTS.glob(f"{kind}-{'?' * HASH_LENGTH}"))]
            diffs = [
                "\n".join(difflib.unified_diff(other.splitlines(), text.splitlines(), kind, name)) for other in others
            ]
            yield min(diffs, key=len, default=f"{name} is new:\n{text}")
