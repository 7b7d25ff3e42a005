"""The models on a claim that no object uses, and the report of the Job that deletes them. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from inference_operator.model_files.uses import ANY, Use, Uses
from inference_operator.objects.cache_volume import folder_of

RECENT_SECONDS = 600.0
"""A model or folder that a Job used less than this ago is kept: its resource may be newer than the list of uses."""
RECENT = "a Job used it less than 10 minutes ago"
UNUSED = "no object uses it"


@dataclass(frozen=True, slots=True)
class CachedRepository:
    folder: str
    snapshots: Mapping[str, bool]
    """Commits on the claim, and whether each is recorded as complete."""
    recent: bool = False


@dataclass(frozen=True, slots=True)
class Deletion:
    everything: bool = False
    """Whether to delete the folder as a whole, with parts of files that no commit names."""
    commits: frozenset[str] = frozenset()
    why: str = UNUSED


@dataclass(frozen=True, slots=True)
class Item:
    what: str
    """`org/name@commit`, or a folder of compiled kernels."""
    size_bytes: int
    state: str
    """`complete`, `half-loaded` or `kernels`."""
    action: str
    """`keep` or `delete`."""
    why: str


@dataclass(frozen=True, slots=True)
class PruneReport:
    items: tuple[Item, ...]
    freed_bytes: int
    dry_run: bool


def deletion_of(repository: CachedRepository, uses: Sequence[Use]) -> Deletion:
    own = [use for use in uses if use.repository == ANY or folder_of(use.repository) == repository.folder]
    users = ", ".join(sorted({use.by for use in own if use.by})) or "an object"
    if repository.recent:
        return Deletion(why=RECENT)
    if not own:
        return Deletion(everything=True, commits=frozenset(repository.snapshots))
    wanted = {use.commit for use in own}
    if "" in wanted or not all(repository.snapshots.get(commit) for commit in wanted):
        return Deletion(why=f"used by {users}")  # any commit, or one that is not complete yet
    return Deletion(commits=frozenset(repository.snapshots) - wanted, why=f"used by {users}")


def kernels_kept(key: str, *, recent: bool, uses: Uses) -> str:
    if key in uses.kernels:
        return "used by engines"
    if ANY in uses.kernels:
        return "an object that mounts the claim may use it"
    return RECENT if recent else ""


def report_text(report: PruneReport) -> str:
    rows = [{"item": asdict(item)} for item in report.items]
    end = {"pruned": {"freed_bytes": report.freed_bytes, "dry_run": report.dry_run}}
    return "\n".join(json.dumps(row, separators=(",", ":")) for row in (*rows, end))


def parsed_report(log: str) -> PruneReport | None:
    items: list[Item] = []
    for line in log.splitlines():
        try:
            row = json.loads(line)
            if "item" in row:
                items.append(Item(**row["item"]))
            elif "pruned" in row:
                return PruneReport(tuple(items), int(row["pruned"]["freed_bytes"]), bool(row["pruned"]["dry_run"]))
        except (ValueError, KeyError, TypeError):
            continue
    return None
