"""The tiny Llama as an image: made inside the engine's image, kept as files, packed when it is asked for."""

import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from e2e.images.builder import Builder
from e2e.images.errors import ImageError
from e2e.images.image import REPOSITORY, Image
from e2e.images.process import log_path
from e2e.images.progress import say, timed
from e2e.localkube.cache import cache_root
from e2e.localkube.oci import write_oci_archive

SCRIPT = Path(__file__).with_name("make_tiny_llama.py")
KEY_DIGITS = 16
_PYTHON = "/opt/vllm/bin/python"


@dataclass(frozen=True, slots=True)
class TinyLlama:
    """An image volume whose root is the model's folder; torch and transformers come from the engine's image."""

    engine: Image
    name: str = "tiny-llama"

    @property
    def reference(self) -> str:
        """Full name with tag; not `latest`, for which the kubelet would go and ask a registry."""
        return f"{REPOSITORY}/{self.name}:1"

    def ensure(self, builder: Builder) -> None:
        """Make the model's files unless they were made by the same script."""
        folder = model_folder()
        if folder.is_dir():
            say(self.name, "up to date")
            return
        self.engine.ensure(builder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        log_path(self.name).unlink(missing_ok=True)
        with (
            timed(self.name, "making the model in the engine's image"),
            tempfile.TemporaryDirectory(dir=folder.parent) as new,
        ):
            command = (_PYTHON, "/script/make_tiny_llama.py", "/made/model")
            volumes = {SCRIPT.parent: "/script:ro", Path(new): "/made"}
            builder.run(self.name, self.engine.reference, command, volumes)
            for old in folder.parent.glob("model-*"):
                shutil.rmtree(old)
            (Path(new) / "model").rename(folder)

    def identity(self, builder: Builder) -> str:  # noqa: ARG002  # an Image like the others
        """The script's key, which is part of the folder's name."""
        return model_folder().name

    def write(self, builder: Builder, into: BinaryIO) -> None:  # noqa: ARG002  # an Image like the others
        """Pack the files."""
        folder = model_folder()
        if not folder.is_dir():
            raise ImageError(f"{self.name} is not built: `python -m e2e.images build {self.name}`")
        write_oci_archive(into, name=self.reference, root=folder)


def model_folder() -> Path:
    """Where the model's files lie once they are built."""
    key = hashlib.sha256(SCRIPT.read_bytes()).hexdigest()[:KEY_DIGITS]
    return cache_root() / "images" / "tiny-llama" / f"model-{key}"
