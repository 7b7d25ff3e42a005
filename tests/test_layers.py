"""The layers of architecture 3; their contracts stand in pyproject.toml."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_contract_is_kept() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout


def test_every_pure_room_is_kept_pure() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (pure,) = [contract for contract in contracts if "asyncio" in contract.get("forbidden_modules", ())]
    rooms = {path.stem for path in (ROOT / "operator" / "inference_operator").iterdir() if path.stem[0] != "_"}
    doing = {"reconcile", "kube", "telemetry", "cli", "app", "scrape", "inspection", "settings", "py"}
    assert {module.rpartition(".")[2] for module in pure["source_modules"]} == rooms - doing
