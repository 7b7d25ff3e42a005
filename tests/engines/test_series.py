"""The scanner of series against the parser of prometheus_client, on pages that prometheus_client writes."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from inference_operator.engines.series import Series, histogram, series

NAMES = ("vllm:running", "vllm:running_total", "other")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ['"', "\\", "\n", "}", "} 1.0", ',le="5"', "\\n", 'x\nvllm:running{a="b"} 9.0', "é"]
)
VALUES = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(2**60), 2**60).map(float)


def page(values: Mapping[str, Mapping[tuple[str, str], float]]) -> str:
    registry = CollectorRegistry()
    for name, children in values.items():
        gauge = Gauge(name, "Words", ["model_name", "engine"], registry=registry)
        for labels, value in children.items():
            gauge.labels(*labels).set(value)
    return generate_latest(registry).decode()


def parsed(text: str, name: str) -> list[Series]:
    families = text_string_to_metric_families(text)
    found = [sample for family in families for sample in family.samples if sample.name == name]
    return [Series(name, dict(sample.labels), sample.value) for sample in found]


def same(ours: list[Series], theirs: list[Series]) -> bool:
    """Whether all are equal; NaN equals NaN here."""
    return len(ours) == len(theirs) and all(
        (one.name, one.labels) == (other.name, other.labels)
        and (one.value == other.value or (math.isnan(one.value) and math.isnan(other.value)))
        for one, other in zip(ours, theirs, strict=True)
    )


@given(st.dictionaries(st.sampled_from(NAMES), st.dictionaries(st.tuples(TEXTS, TEXTS), VALUES, max_size=4)))
def test_a_page_reads_as_by_the_parser_of_prometheus_client(
    values: Mapping[str, Mapping[tuple[str, str], float]],
) -> None:
    text = page(values)
    for name in NAMES:
        assert same(list(series(text, [name])), parsed(text, name))


@given(st.lists(st.floats(0, 1e9), max_size=20), TEXTS)
def test_buckets_of_a_histogram_read_as_by_the_parser_of_prometheus_client(seen: list[float], model: str) -> None:
    registry = CollectorRegistry()
    histogram = Histogram("seconds", "Words", ["model_name"], buckets=(0.001, 0.5, 1e3), registry=registry)
    for value in seen:
        histogram.labels(model).observe(value)
    text = generate_latest(registry).decode()
    assert same(list(series(text, ["seconds_bucket"])), parsed(text, "seconds_bucket"))


@pytest.mark.parametrize("written", ["1e3", "1E+3", "1000", "+1000.0", "1000 1700000000000", "1000 -5"])
def test_every_form_of_a_number_is_read(written: str) -> None:
    line = f'a{{b="c"}} {written}\n'
    assert list(series(line, ["a"])) == [Series("a", {"b": "c"}, 1000.0)]
    assert same(list(series(line, ["a"])), parsed(line, "a"))


@pytest.mark.parametrize(
    "line",
    [
        'a{b="c"}',
        'a{b="c"} x',
        "a{b=c} 1",
        "a  ",
        "a x",
        'a{b="c} 1',
        'a{b="c"} 1_0',
        'a{b="c" d="e"} 1',
        'a{b="c"} 1 2 3',
    ],
)
def test_a_line_that_is_not_in_the_format_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match=r"not a series of Prometheus|could not convert"):
        list(series(f"{line}\n", ["a"]))


PAGE_OF_LLAMA_CPP = """# HELP llamacpp:requests_processing Number of requests processing.
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 3
# HELP llamacpp:requests_deferred Number of requests deferred.
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 0
"""
"""A part of what `llama-server --metrics` writes."""


@pytest.mark.parametrize(("name", "value"), [("llamacpp:requests_processing", 3.0), ("llamacpp:requests_deferred", 0)])
def test_series_without_labels_are_read(name: str, value: float) -> None:
    assert list(series(PAGE_OF_LLAMA_CPP, [name])) == [Series(name, {}, value)]
    assert same(list(series(PAGE_OF_LLAMA_CPP, [name])), parsed(PAGE_OF_LLAMA_CPP, name))


@pytest.mark.parametrize("line", ["a_total 1", 'a_total{b="c"} 1', "ab 1", "# a 1"])
def test_a_longer_name_is_another_series(line: str) -> None:
    assert list(series(f"{line}\na 2\n", ["a"])) == [Series("a", {}, 2.0)]


@pytest.mark.parametrize("line", ['b_bucket{le="1e200"} 3', 'b_bucket{le="+Inf"} -1000', "b_sum 1e308", "b_sum NaN"])
def test_a_histogram_with_a_number_that_no_engine_counts_is_none(line: str) -> None:
    page = 'b_bucket{le="1"} 2\nb_bucket{le="+Inf"} 3\nb_sum 4.5\n'
    assert histogram(page, "b")
    assert histogram(f"{page}{line}\n", "b") is None
