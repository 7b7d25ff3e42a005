"""Twenty minutes of random faults on two real nodes: nothing is lost beyond the table of docs/explanation/scope.md."""

from pathlib import Path

import pytest

from bench.availability import figures, findings, measured, table
from bench.figures import shown
from e2e.runs.printed_figures import Say

pytestmark = pytest.mark.full

SECONDS = 20 * 60.0


def test_random_faults_lose_nothing_beyond_the_table_and_nothing_of_a_client_that_asks_once_more(
    tmp_path: Path, say: Say
) -> None:
    rounds = measured(tmp_path, seed=1, seconds=SECONDS)
    for line in (*findings(rounds), *table(rounds), *shown(list(figures(rounds)), "text").splitlines()):
        say(line)
    counts = [figure for figure in figures(rounds) if figure.aim and figure.aim.relation == "=="]
    assert counts
    assert not [figure for figure in counts if figure.value], (
        "the share that is answered depends on how dense faults are"
    )
