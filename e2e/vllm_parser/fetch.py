# noqa: INP001 (a script for the image, no module of this package)
"""Runs inside the engine's image: fetches images with vLLM's own client, as an engine with these arguments would.

python fetch.py CASES.json RESULT.json

Each case has arguments, variables and URLs; its result says for each URL whether vLLM got an image.
"""

# vLLM and its kind are in the engine's image, not in the environment that checks this file:
# mypy: disable-error-code="import-not-found"

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.multimodal.media import MediaConnector
from vllm.utils.argparse_utils import FlexibleArgumentParser


def fetched(case: Mapping[str, Any]) -> list[bool]:
    """Whether each URL gives an image."""
    os.environ.update(case["env"])
    parser = FlexibleArgumentParser()
    ServeSubcommand().subparser_init(parser.add_subparsers(dest="subparser"))
    read = parser.parse_args(["serve", *case["args"]])
    connector = MediaConnector(
        allowed_local_media_path=read.allowed_local_media_path, allowed_media_domains=read.allowed_media_domains
    )
    return asyncio.run(_are_images(connector, case["urls"]))


async def _are_images(connector: MediaConnector, urls: Sequence[str]) -> list[bool]:
    return [await _is_image(connector, url) for url in urls]


async def _is_image(connector: MediaConnector, url: str) -> bool:
    try:
        await connector.fetch_image_async(url)
    except Exception as error:  # noqa: BLE001 - whatever stands in the way, there is no image
        print(f"{url}: {type(error).__name__}: {error}")
        return False
    return True


if __name__ == "__main__":
    cases = json.loads(Path(sys.argv[1]).read_text())
    # Each has a process of its own, as it has variables of its own, and vLLM keeps one client for the first event loop.
    with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        Path(sys.argv[2]).write_text(json.dumps(pool.map(fetched, cases, chunksize=1)))
