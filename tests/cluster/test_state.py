"""Records of clusters: versions of the tool in several checkouts share them."""

import json
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest

from e2e.localkube.errors import ClusterError
from e2e.localkube.network import IpFamily
from e2e.localkube.state import Record, layout, read_record, write_record


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with a short path: a socket in it must have at most 107 bytes."""
    with TemporaryDirectory() as folder:
        monkeypatch.setenv("XDG_CACHE_HOME", folder)
        yield


def stored(record: Record) -> dict[str, object]:
    write_record(record)
    content = json.loads(layout(record.name).record.read_text())
    assert isinstance(content, dict)
    return content


@pytest.mark.parametrize("family", IpFamily)
def test_a_record_is_read_as_it_was_written(family: IpFamily) -> None:
    record = Record("demo", "local", slot=3, ip_family=family)
    stored(record)
    assert read_record("demo") == record


def test_a_version_that_knows_only_ipv4_reads_the_record_of_an_ipv4_cluster() -> None:
    assert "ip_family" not in stored(Record("demo", "local"))


def test_a_record_with_other_fields_or_fewer_is_read() -> None:
    stored(Record("demo", "local"))
    layout("demo").record.write_text(json.dumps({"name": "demo", "provider": "local", "of_a_later_version": 1}))
    assert read_record("demo") == Record("demo", "local")


@pytest.mark.parametrize("field", ["level", "ip_family"])
def test_a_record_with_a_value_of_another_version_is_an_error_that_names_the_cluster_and_the_value(field: str) -> None:
    content = {**stored(Record("demo", "local")), field: "of-later"}
    layout("demo").record.write_text(json.dumps(content))
    with pytest.raises(ClusterError, match=r"record of cluster demo .*of-later.* remove "):
        read_record("demo")
