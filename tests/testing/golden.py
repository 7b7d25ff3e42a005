"""Golden files: a reviewed file for each expected text, with a suitable file extension."""

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode


class GoldenFile(SingleFileSnapshotExtension):
    """A file of text, under its own name, in `__snapshots__/<test module>/`."""

    _write_mode = WriteMode.TEXT

    @classmethod
    def ending(cls, extension: str) -> type["GoldenFile"]:
        """The same, with an extension that editors know."""
        return type(cls.__name__, (cls,), {"file_extension": extension})
