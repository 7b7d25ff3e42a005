"""Changes the operator, one place at a time, and says which changes the tests notice.

    python -m tests.mutants [--module MODULE ...] [--seed S] [--count N] [--allow N] [-o text|json] [--state FILE]
    python -m tests.mutants --defence ROW [-o text|json] [--state FILE]

Without `--defence`: random mutants (`tests/mutants/operators.py`) of packages or modules, such as `status` or
`workload.eviction.drain`. The seed and the code decide which. Those that mean the same as the code stand in
`tests/mutants/equivalents.toml`. With it: the defences of `tests/mutants/defences.toml` whose promise contains the
text ROW, or `all`.

A line per mutant: where, operator, before -> after, and `killed by` a test, `survived`, `equivalent` or `timeout`. The
exit status is 1 if more than `--allow` mutants survived. Nothing is changed in the repository. A run that was
interrupted goes on where it was, unless a file has changed since; the file of `--state` keeps what it knows until then.
"""

import argparse
import hashlib
import json
import signal
import sys
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutants import in_place
from tests.mutants.copied import ROOT, copy
from tests.mutants.defences import Defence, defences
from tests.mutants.operators import Mutant, mutants, sample
from tests.mutants.verdict import Verdict

PACKAGE = Path("operator/inference_operator")
PACKAGES = ("pipeline", "workload", "status", "router", "admission")
WIDER = ("tests/pipeline", "tests/status")
"""Golden manifests and states, which most modules shape."""
EQUIVALENTS = Path(__file__).with_name("equivalents.toml")
SEED, COUNT = 1, 60
MUTANT_SECONDS, DEFENCE_SECONDS = 900, 1200
"""The longest time of a process that judges one."""
WIDTH = 100
"""Characters of a text in a line."""


@dataclass(frozen=True, slots=True)
class Result:
    """A line of the output."""

    where: str
    operator: str
    before: str
    after: str
    outcome: str
    why: str

    def __str__(self) -> str:
        verdict = f"killed by {self.why}" if self.outcome == "killed" else f"{self.outcome}: {self.why}"
        return f"{self.where}: {self.operator}: {_short(self.before)} -> {_short(self.after)}: {verdict}"


class State:
    """Verdicts of this run, and of an interrupted one over the same files."""

    def __init__(self, path: Path, *, as_text: bool) -> None:
        self.path, self.as_text = path, as_text
        self.results: list[Result] = []
        self.verdicts: dict[str, Verdict] = {}
        tree = _digest()
        lines = path.read_text().splitlines() if path.exists() else []
        if lines and json.loads(lines[0]) == tree:
            self.verdicts = {key: Verdict(**verdict) for key, verdict in map(json.loads, lines[1:])}
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(tree) + "\n")

    def judge(self, subject: Mutant | Defence, verdict: Verdict) -> None:
        """Keep a verdict and print it."""
        if subject.key not in self.verdicts:
            self.verdicts[subject.key] = verdict
            with self.path.open("a") as file:
                file.write(json.dumps([subject.key, asdict(verdict)]) + "\n")
        result = _result(subject, verdict)
        self.results.append(result)
        if self.as_text:
            print(result, file=sys.__stdout__, flush=True)

    def is_new(self, subject: Mutant | Defence) -> bool:
        """Whether this run has to judge it; prints what is known already."""
        if verdict := self.verdicts.get(subject.key):
            self.judge(subject, verdict)
        return subject.key not in self.verdicts


def _digest() -> str:
    """Of every file that a verdict can depend on."""
    digest = hashlib.sha256()
    for top in ("operator", "tests", "e2e", "charts", "crds", "manifests"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                digest.update(f"{path}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _result(subject: Mutant | Defence, verdict: Verdict) -> Result:
    if isinstance(subject, Mutant):
        where = f"{subject.path}:{subject.line}"
        return Result(where, subject.operator, subject.before, subject.after, verdict.outcome, verdict.why)
    where = ", ".join(f"{removal.file}:{removal.line}" for removal in subject.removals)
    return Result(where, "defence", subject.promise, "", verdict.outcome, verdict.why)


def _short(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def modules(names: list[str]) -> list[Path]:
    """The files of packages and modules of the operator, relative to the repository."""
    paths: set[Path] = set()
    for name in names:
        path = ROOT / PACKAGE / name.replace(".", "/")
        below = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
        if not below or not below[0].exists():
            raise SystemExit(f"error: --module {name}: there is no such package or module in {PACKAGE}")
        paths |= {file.relative_to(ROOT) for file in below}
    return sorted(paths)


def paths_of_tests(path: Path) -> list[str]:
    """Doctests and tests of a module, and then the wider ones."""
    top = path.relative_to(PACKAGE).parts[0]
    own = [f"tests/{top}", f"tests/test_{top}"]
    return list(dict.fromkeys([str(path), *(test for test in own if (ROOT / test).exists()), *WIDER]))


def is_equivalent(mutant: Mutant) -> str | None:
    """Why a mutant means the same as the code."""
    for entry in tomllib.loads(EQUIVALENTS.read_text())["equivalent"]:
        if mutant.key == entry["mutant"] and str(mutant.path.relative_to(PACKAGE)) == entry["module"]:
            return str(entry["reason"])
    return None


def _judge_mutants(chosen: list[Mutant], state: State) -> None:
    for mutant in chosen:
        if (reason := is_equivalent(mutant)) and mutant.key not in state.verdicts:
            state.verdicts[mutant.key] = Verdict("equivalent", reason)
    new = [mutant for mutant in chosen if state.is_new(mutant)]
    unknown = [mutant for mutant in new if not mutant.lines]

    def judge(mutant: Mutant, verdict: Verdict) -> None:
        if verdict.outcome == "unknown":
            unknown.append(mutant)
        else:
            state.judge(mutant, verdict)

    in_functions = [mutant for mutant in new if mutant.lines]
    if in_functions:
        tests = sorted({test for mutant in new for test in paths_of_tests(mutant.path)})
        in_place.run(in_place.InPlace(in_functions, judge), tests)
    if unknown:
        with copy() as copied:
            for mutant in unknown:
                with copied.changed({mutant.path: mutant.text}):
                    state.judge(mutant, copied.verdict(paths_of_tests(mutant.path), MUTANT_SECONDS))


def _judge_defences(chosen: list[Defence], state: State) -> None:
    new = [defence for defence in chosen if state.is_new(defence)]
    if not new:
        return
    with copy() as copied:
        whole = copied.verdict(sorted({test for defence in new for test in defence.tests}), 3 * DEFENCE_SECONDS)
        if whole.outcome != "survived":
            raise SystemExit(f"error: with all defences, a test fails: {whole.why}")
        for defence in new:
            with copied.changed(defence.texts()):
                state.judge(defence, copied.verdict(defence.tests, DEFENCE_SECONDS))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--module", action="append", help=f"a package or module; default: {', '.join(PACKAGES)}")
    parser.add_argument("--defence", metavar="ROW", help="a part of a promise of the security page, or all")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT, help="random mutants")
    parser.add_argument("--allow", type=int, default=0, metavar="N", help="mutants that may survive")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument("--state", type=Path, default=ROOT / ".reports" / "mutants.jsonl")
    return parser.parse_args()


def main() -> int:
    """Judge mutants or defences; returns the exit status."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the copy and the forks end too
    state = State(arguments.state, as_text=arguments.output == "text")
    if arguments.defence:
        chosen = [row for row in defences() if arguments.defence == "all" or arguments.defence in row.promise]
        if not chosen:
            raise SystemExit(f"error: --defence {arguments.defence}: no promise of the table contains it")
        _judge_defences(chosen, state)
    else:
        everything = [
            mutant
            for path in modules(arguments.module or list(PACKAGES))
            for mutant in mutants(path, (ROOT / path).read_text())
        ]
        _judge_mutants(sample(everything, arguments.seed, arguments.count), state)
    arguments.state.unlink()
    counts = Counter(result.outcome for result in state.results)
    if arguments.output == "json":
        print(json.dumps({"counts": counts, "mutants": [asdict(result) for result in state.results]}, indent=2))
    else:
        print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    return 1 if counts["survived"] > arguments.allow else 0


if __name__ == "__main__":
    sys.exit(main())
