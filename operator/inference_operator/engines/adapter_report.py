"""What the program that loads adapters tells of them; it runs in a pod of a user, so any text is possible."""

import json

from inference_operator.views.raw import mapping
from inference_operator.views.samples import AdapterFailure, AdapterReport

REPORT_PATH = "/adapters"
"""Path on the program's port."""

MOST = 256
"""Adapters of a report that are read."""


def adapter_report(text: str) -> AdapterReport | None:
    """The report; None if it is invalid in any way.

    Examples:
        >>> adapter_report('{"list": "12", "loaded": {"a": "/x"}, "failed": {"b": {"since": 5, "status": 500}}}')
        AdapterReport(list_hash='12', loaded={'a': '/x'}, failed={'b': AdapterFailure(since=5, status=500)})
        >>> adapter_report("[]") is adapter_report("{") is None
        True
    """
    try:
        document = json.loads(text)
        if not isinstance(document, dict):
            return None
        loaded, failed = mapping(document, "loaded"), mapping(document, "failed")
        return AdapterReport(
            str(document.get("list") or ""),
            {str(name): str(path) for name, path in list(loaded.items())[:MOST]},
            {
                str(name): AdapterFailure(int(failure["since"]), int(failure["status"]))
                for name, failure in list(failed.items())[:MOST]
            },
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
