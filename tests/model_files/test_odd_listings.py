"""Random listings of a repository, downloaded by the real client of the hub: nothing is written outside the claim."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.testing.hub import COMMIT, REPOSITORY, Hub, git_sha1, serving

LISTINGS, FILES = 100, 6
PARTS = (
    *("..", ".", "", " ", "...", ".. ", "%2e%2e", "..%2f", "\\", "..\\a", "~", "-rf", "c:", "a\0b", "a\nb", "a" * 300),
    *("blobs", "snapshots", "refs", ".locks", "complete", COMMIT, "hub", "a", "b.json", "ü", "model.safetensors"),
)
CONTENT = b"content"
LOADER = """
import sys
from pathlib import Path
from inference_operator.jobs.result import Failure
from inference_operator.model_files.download import download
from inference_operator.model_files.hub_download import HubOrigin

folder, repository, commit, count = sys.argv[1:]
for number in range(int(count)):
    claim = Path(folder, str(number))
    claim.mkdir()
    found = download(HubOrigin(repository), commit, claim, say=lambda _: None)
    print("Failure" if isinstance(found, Failure) else "Downloaded")
"""


class Everything(dict[str, bytes]):
    """Each file has the same content."""

    def get(self, key: str, default: object = None) -> bytes:  # noqa: ARG002
        """The content."""
        return CONTENT


def listings(random: Random) -> Iterator[bytes]:
    """Names of odd parts, half of them with the right size, some with a hash, and links among the files."""
    while True:
        entries: list[dict[str, object]] = []
        for _ in range(random.randint(1, FILES)):
            path = "/".join(random.choices(PARTS[16:] if random.random() < 0.8 else PARTS, k=random.randint(1, 4)))
            size = random.choice([len(CONTENT), len(CONTENT), len(CONTENT), 0, 3, 2**40, -1])
            kind = random.choice(["file"] * 6 + ["directory", "symlink"])
            entry: dict[str, object] = {"type": kind, "path": path, "size": size, "oid": git_sha1(CONTENT)}
            if random.random() < 0.3:
                digest = random.choice([hashlib.sha256(CONTENT).hexdigest(), "../" * 21 + "a", "0" * 64])
                entry["lfs"] = {"oid": digest, "size": size, "pointerSize": 134}
            entries.append(entry)
        yield json.dumps(entries).encode()


def content(folder: Path) -> set[Path]:
    """Everything in a folder, without following links."""
    return {Path(parent, name) for parent, folders, files in os.walk(folder) for name in (*folders, *files)}


def test_no_listing_makes_a_download_write_or_link_outside_its_claim(tmp_path: Path) -> None:
    claims, home = tmp_path / "around" / "claims", tmp_path / "home"
    claims.mkdir(parents=True)
    home.mkdir()
    made = listings(Random(1))  # noqa: S311 - it decides about a test only
    hub = Hub(files=Everything())
    hub.tree = lambda: next(made)  # type: ignore[method-assign]
    with serving(hub):
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(home)}
        command = [sys.executable, "-c", LOADER, str(claims), REPOSITORY, COMMIT, str(LISTINGS)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, cwd=home, timeout=600)
    results = done.stdout.split()
    assert len(results) == LISTINGS
    assert results.count("Downloaded") >= LISTINGS // 20, "some listings are right"
    own = {claims / str(number) for number in range(LISTINGS)}
    assert set(claims.iterdir()) == own
    assert set(claims.parent.iterdir()) == {claims}
    for claim in own:
        assert all(path.resolve().is_relative_to(claim) for path in content(claim))
    for number, result in enumerate(results):
        assert bool(list((claims / str(number)).glob("complete/*.json"))) is (result == "Downloaded")
