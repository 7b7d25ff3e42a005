import pytest

from e2e.localkube.binaries import ensure_command
from tests.chart.helm import Helm


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(ensure_command("helm"), tmp_path_factory.mktemp("helm"))
