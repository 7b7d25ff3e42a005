"""An image builder that keeps images in memory and counts its calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from e2e.images.errors import ImageError


@dataclass(slots=True)
class KeptInMemory:
    """Fulfils the Builder protocol without building; `run` writes one file into each folder that it may write."""

    base: str = "sha256:base"
    keys: dict[str, str] = field(default_factory=dict)
    built: list[str] = field(default_factory=list)
    ran: list[Sequence[str]] = field(default_factory=list)
    run_fails: bool = False

    def ensure_base(self, _reference: str) -> str:
        return self.base

    def key(self, reference: str) -> str | None:
        return self.keys.get(reference)

    def build(self, _name: str, reference: str, _dockerfile: Path, *, context: Path, key: str) -> None:
        assert context.is_dir()
        self.keys[reference] = key
        self.built.append(reference)

    def run(self, name: str, _reference: str, command: Sequence[str], volumes: Mapping[Path, str]) -> None:
        self.ran.append(command)
        if self.run_fails:
            raise ImageError(f"{name}: failed")
        for folder, target in volumes.items():
            if not target.endswith(":ro"):
                (folder / "model").mkdir()
                (folder / "model" / "config.json").write_text("{}")

    def write(self, reference: str, into: BinaryIO) -> None:
        into.write(reference.encode())

    def push(self, _name: str, reference: str, target: str) -> None:
        self.keys[target] = self.keys[reference]
