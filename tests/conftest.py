import os

from hypothesis import HealthCheck, settings

from e2e.runs.printed_figures import pytest_runtest_logreport, say
from tests.testing.operated_cluster import account, audit, kubernetes, operator, qwen, workspace

# Most tests are about a model whose facts are known: those of the catalogue, without an inspection and without a hub.
# Tests about inspections set it otherwise.
os.environ["INFERENCE_OPERATOR_MODEL_INSPECTION"] = "WhenUnknown"
os.environ["HF_HUB_OFFLINE"] = "1"

__all__ = ["account", "audit", "kubernetes", "operator", "pytest_runtest_logreport", "qwen", "say", "workspace"]
"""Fixtures of a session have one place, so that tests of several folders share one cluster."""

# Neither the time of one example nor that of making examples says anything on a machine that does other things too.
settings.register_profile(
    "few", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("many", settings.get_profile("few"), max_examples=1000)
settings.load_profile("few")
