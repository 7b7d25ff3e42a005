"""The command line: `python -m e2e.images build NAME... | archive NAME`."""

import argparse
import sys

from e2e import images


def main() -> None:
    """Build images, or write one to standard output."""
    parser = argparse.ArgumentParser(prog="python -m e2e.images", description=images.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="make images where their inputs changed")
    build.add_argument("name", nargs="+", choices=images.IMAGES)
    archive = commands.add_parser("archive", help="write an image's uncompressed archive to standard output")
    archive.add_argument("name", choices=images.IMAGES)
    chosen = parser.parse_args()
    try:
        if chosen.command == "build":
            images.build(chosen.name)
        elif sys.stdout.isatty():
            parser.error("an archive is no text: redirect it to a file or pipe")
        else:
            images.stream(chosen.name, into=sys.stdout.buffer)
    except images.ImageError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
