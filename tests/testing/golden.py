"""Golden files: one reviewed file for each expected text, readable as what it is."""

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode


class GoldenFile(SingleFileSnapshotExtension):
    """A file of text, under its own name, in `__snapshots__/<test module>/`."""

    _write_mode = WriteMode.TEXT

    @classmethod
    def ending(cls, extension: str) -> type["GoldenFile"]:
        """The same, with an extension that editors know."""
        return type(cls.__name__, (cls,), {"file_extension": extension})
