import asyncio
import logging

import pytest

from inference_operator.kube.watch import tell_of_stray


async def test_a_watch_that_is_cut_off_is_no_error_and_everything_else_is(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    with caplog.at_level(logging.INFO):
        tell_of_stray(loop, {"message": "an error occurred during closing of asynchronous generator", "asyncgen": None})
        assert caplog.records == []
        tell_of_stray(loop, {"message": "nobody awaits this"})
        assert [record.getMessage() for record in caplog.records] == ["nobody awaits this"]
