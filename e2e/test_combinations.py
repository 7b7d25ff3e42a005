"""What goes with what, by vLLM's own configuration in the engine's image."""

import pytest

from e2e.engines.combinations import answers, text
from generators.combinations import TABLE

pytestmark = pytest.mark.full  # 59 configurations of vLLM; `tests/documents/test_combinations.py` judges their table


def test_the_table_of_combinations_is_what_vllm_says(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = text(answers(tmp_path_factory.mktemp("combinations")))
    assert found == TABLE.read_text(encoding="utf-8"), "stale: `python -m e2e.engines.combinations`"
