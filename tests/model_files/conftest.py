from collections.abc import Iterator

import pytest

from tests.testing.forked_infd import ForkedInfd, forked_infd


@pytest.fixture(scope="session")
def infd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedInfd]:
    with forked_infd(tmp_path_factory.mktemp("infd")) as server:
        yield server
