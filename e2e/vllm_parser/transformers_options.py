# noqa: INP001 (a script for the image, no module of this package)
"""Runs inside the engine's image: the options of `transformers serve` and the version of the library.

python transformers_options.py QUESTION.json RESULT.json
"""

# The libraries are in the engine's image, not in the environment that checks this file:
# mypy: disable-error-code="import-not-found"

import json
import sys
from pathlib import Path

import transformers
from transformers.cli.serve import Serve
from typer import Typer
from typer.main import get_command

command = Typer(add_completion=False)
command.command()(Serve)
parameters = get_command(command).params
options = sorted(name for one in parameters for name in (*one.opts, *one.secondary_opts) if name.startswith("-"))
Path(sys.argv[2]).write_text(json.dumps({"version": transformers.__version__, "options": options}))
