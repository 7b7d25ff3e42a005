from hypothesis import HealthCheck, settings

from e2e.said import pytest_runtest_logreport, say

__all__ = ["pytest_runtest_logreport", "say"]

# Neither the time of one example nor that of making examples says anything on a machine that does other things too.
settings.register_profile(
    "few", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("many", settings.get_profile("few"), max_examples=1000)
settings.load_profile("few")
