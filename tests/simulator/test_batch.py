"""Continuous batching of the simulated engine: sizes, durations, and who runs."""

from e2e.simulator.batch import BLOCK_TOKENS, Batch, Sequence
from e2e.simulator.options import Options

OPTIONS = Options(
    max_num_seqs=2,
    max_num_batched_tokens=100,
    kv_cache_tokens=1000,
    prefill_tokens_per_second=1000,
    decode_step_seconds=0.01,
    decode_sequence_seconds=0.001,
)


def _batch(*sequences: Sequence, **changed: float) -> Batch:
    batch = Batch(OPTIONS.model_copy(update=changed))
    batch.waiting.extend(sequences)
    return batch


def _steps_until_done(batch: Batch, sequence: Sequence) -> int:
    steps = 0
    while not sequence.done:
        step = batch.step()
        assert step is not None
        for done in [got for got in step.got if got.done]:
            batch.remove(done)
        steps += 1
    return steps


def test_a_prompt_takes_the_time_of_its_tokens_and_gives_the_first_token() -> None:
    sequence = Sequence(prompt=50, most=2)
    step = _batch(sequence).step()
    assert step is not None
    assert (step.seconds, step.computed, step.got) == (0.01 + 0.05, 50, (sequence,))


def test_each_decoding_sequence_makes_a_step_longer() -> None:
    batch = _batch(Sequence(prompt=1, most=9), Sequence(prompt=1, most=9))
    batch.step()
    step = batch.step()
    assert step is not None
    assert (step.seconds, len(step.got)) == (0.01 + 2 * 0.001, 2)


def test_a_prompt_above_the_budget_is_computed_in_chunks_while_others_decode() -> None:
    decoding, long = Sequence(prompt=1, most=99), Sequence(prompt=150, most=1)
    batch = _batch(decoding)
    batch.step()
    batch.waiting.append(long)
    computed = [step.computed for step in (batch.step(), batch.step()) if step]
    assert computed == [100, 1 + (150 - 99)]
    assert (decoding.generated, long.generated) == (3, 1)


def test_a_third_sequence_waits_where_two_fit_the_batch() -> None:
    first, second, third = (Sequence(prompt=1, most=3) for _ in range(3))
    batch = _batch(first, second, third)
    batch.step()
    assert (len(batch.running), len(batch.waiting)) == (2, 1)
    batch.remove(first)
    batch.step()
    assert batch.running == [second, third]


def test_a_sequence_waits_while_its_prompt_does_not_fit_the_kv_cache() -> None:
    batch = _batch(Sequence(prompt=600, most=1), Sequence(prompt=600, most=1), max_num_batched_tokens=10_000)
    batch.step()
    assert (len(batch.running), len(batch.waiting)) == (1, 1)


def test_the_latest_sequence_is_preempted_and_computed_again_when_the_kv_cache_is_full() -> None:
    first, second = Sequence(prompt=40, most=30), Sequence(prompt=40, most=30)
    batch = _batch(first, second, kv_cache_tokens=100)
    _steps_until_done(batch, first)
    assert (first.preemptions, second.preemptions) == (0, 1)
    _steps_until_done(batch, second)
    assert second.generated == 30


def test_a_known_prefix_is_not_computed_again_but_the_last_token_is() -> None:
    blocks = (1, 2, 3)
    first, second = (Sequence(prompt=3 * BLOCK_TOKENS, most=1, blocks=blocks) for _ in range(2))
    batch = _batch(first)
    _steps_until_done(batch, first)
    batch.waiting.append(second)
    step = batch.step()
    assert step is not None
    assert (second.cached, step.computed) == (3 * BLOCK_TOKENS - 1, 1)


def test_without_a_prefix_cache_a_known_prompt_is_computed_again() -> None:
    first, second = (Sequence(prompt=2 * BLOCK_TOKENS, most=1, blocks=(1, 2)) for _ in range(2))
    batch = _batch(first, prefix_cache=False)
    _steps_until_done(batch, first)
    batch.waiting.append(second)
    _steps_until_done(batch, second)
    assert second.cached == 0


def test_a_batch_without_a_sequence_has_no_step() -> None:
    assert _batch().step() is None
