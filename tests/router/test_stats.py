from pathlib import Path

import pytest

from inference_operator.router.stats import router_sample
from inference_operator.views.samples import RouterSample

HEADER = "# pxname,svname,qcur,qmax,scur,stot,addr,cookie,\n"
TOTAL = "engines,BACKEND,2,2,9,9,,,\n"


def test_recorded_haproxy_statistics_are_read() -> None:
    """Recorded from HAProxy 3.0: five servers up, all of one address, with three requests, and no held request."""
    text = Path(__file__).with_name("haproxy-3.0-stats.csv").read_text()
    assert router_sample(text) == RouterSample({"127.0.0.1": 3}, queued=0, held=0, arrivals=3)


def test_sessions_are_counted_by_the_address_of_the_engine() -> None:
    text = HEADER + "engines,e1,0,0,3,3,10.0.0.1:8000,,\nengines,e2,0,0,1,1,[fd00::2]:8000,,\n" + TOTAL
    assert router_sample(text) == RouterSample({"10.0.0.1": 3, "fd00::2": 1}, queued=2, held=3, arrivals=9)


def test_a_request_that_went_on_to_the_hold_server_is_counted_once() -> None:
    text = HEADER + "engines,hold,0,0,1,2,unix,,\nengines,BACKEND,0,0,4,6,,,\n"
    assert router_sample(text) == RouterSample({}, queued=0, held=3, arrivals=4)


def test_an_older_haproxy_shows_one_more_backend() -> None:
    text = HEADER + "stopping,marker,0,0,0,0,127.0.0.1:9,,\nstopping,BACKEND,0,0,0,0,,,\n" + TOTAL
    assert router_sample(text) == RouterSample({}, queued=2, held=7, arrivals=9, is_older=True)


def test_prompts_of_engines_are_counted_apart() -> None:
    """Without what the router itself refuses: seven answers are 4xx, of which two came from engines."""
    text = (
        "# pxname,svname,qcur,scur,stot,addr,hrsp_4xx,hrsp_5xx,req_tot,\nprompts,FRONTEND,,3,40,,7,4,46,\n"
        "prefill,p1,0,2,8,10.0.0.9:8000,2,1,,\nprefill,BACKEND,2,3,30,,2,1,,\nengines,BACKEND,0,0,9,,,,,\n"
    )
    expected = RouterSample({}, queued=0, held=0, arrivals=9, prompts=41, prompts_queued=2, prompts_failed=4)
    assert router_sample(text) == expected


@pytest.mark.parametrize(
    "text", ["", "ok", "<html>", HEADER, HEADER + "other,BACKEND,0,0,1,1,,,\n", HEADER + "engines\n"]
)
def test_a_text_without_statistics_has_no_router_sample(text: str) -> None:
    assert router_sample(text) is None
