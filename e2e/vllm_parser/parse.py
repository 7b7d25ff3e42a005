# noqa: INP001 (a script for the image, no module of this package)
"""Runs inside the engine's image: reads argument lists with vLLM's own parser, as `vllm serve` does.

python parse.py LISTS.json RESULT.json
"""

import argparse
import json
import sys
from pathlib import Path

from vllm import envs
from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.utils.argparse_utils import FlexibleArgumentParser

READ = (
    *("model_tag", "served_model_name", "host", "port", "tensor_parallel_size", "shutdown_timeout"),
    *("max_model_len", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization"),
    *("dtype", "quantization", "kv_cache_dtype", "cpu_offload_gb", "allowed_media_domains"),
)


def main() -> None:
    """Parse every list; a list that vLLM refuses ends the process with vLLM's own message."""
    parser = FlexibleArgumentParser()
    command = ServeSubcommand()
    serve = command.subparser_init(parser.add_subparsers(dest="subparser"))
    read = []
    for arguments in json.loads(Path(sys.argv[1]).read_text()):
        parsed = parser.parse_args(["serve", *arguments])
        command.validate(parsed)
        adapters = [adapter.path for adapter in parsed.lora_modules or ()]
        read.append({**{name: getattr(parsed, name) for name in READ}, "adapters": adapters})
    found = {"read": read, "options": options(serve), "variables": sorted(envs.environment_variables)}
    Path(sys.argv[2]).write_text(json.dumps(found))


def options(parser: argparse.ArgumentParser) -> list[str]:
    """Every option with all its spellings, the longest that is not negated first, since that is its name."""
    found = [action.option_strings for action in parser._actions if action.option_strings]  # noqa: SLF001 - no public way
    return sorted(" ".join(sorted(spellings, key=_rank)) for spellings in found)


def _rank(spelling: str) -> tuple[bool, bool, int, str]:
    return (not spelling.startswith("--"), spelling.startswith("--no-"), -len(spelling), spelling)


if __name__ == "__main__":
    main()
