from inference_operator.pipeline.templates import startup_seconds


def test_a_large_checkpoint_has_more_time_to_load() -> None:
    assert [startup_seconds(size) for size in (None, 16 * 10**9, 140 * 10**9)] == [1800, 1800, 2934]
