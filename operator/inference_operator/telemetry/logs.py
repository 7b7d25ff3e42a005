"""Log configuration: one line per record, as JSON or as text."""

import logging
import sys
from typing import Literal

from pythonjsonlogger.json import JsonFormatter


def configure_logs(log_format: Literal["json", "text"]) -> None:
    """Send all logs to standard error, in one format."""
    handler = logging.StreamHandler(sys.stderr)
    if log_format == "json":
        fields = "%(asctime)s %(levelname)s %(name)s %(message)s"
        renamed = {"asctime": "time", "levelname": "level", "name": "logger"}
        handler.setFormatter(JsonFormatter(fields, rename_fields=renamed))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
