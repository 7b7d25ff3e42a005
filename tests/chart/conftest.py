import pytest

from e2e.cluster.binaries import binary
from tests.chart.helm import Helm


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(binary("helm"), tmp_path_factory.mktemp("helm"))
