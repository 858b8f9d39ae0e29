"""The arithmetic behind the page of numbers: what counts, what a ratio is, when a goal is met."""

from __future__ import annotations

import pytest

from tests.bench.load import request
from tests.bench.report import Detail, Findings, Row, page
from tests.bench.samples import Rate, Spread, rate, ratios


def test_a_rate_counts_from_when_all_are_warm_until_the_first_is_done() -> None:
    quick = [float(n) for n in range(1, 11)]  # done at 10, warm at 3
    slow = [2.0 * n for n in range(1, 11)]  # done at 20, warm at 6
    counted = [7.0, 8.0, 9.0, 10.0, 8.0, 10.0]
    assert rate([quick, slow]) == pytest.approx(len(counted) / (10 - 6))


def test_callers_that_never_worked_at_the_same_time_have_no_rate() -> None:
    with pytest.raises(ValueError, match="same time"):
        rate([[1.0, 2.0], [3.0, 4.0]])


def test_a_ratio_is_taken_within_each_round() -> None:
    ours = [Rate(100), Rate(10), Rate(50)]  # the second round was disturbed, for both
    theirs = [Rate(50), Rate(5), Rate(50)]
    assert ratios(ours, theirs) == Spread(2.0, 1.0, 2.0)


@pytest.mark.parametrize(
    ("row", "met"),
    [
        (Row("lane", "pgbench", Spread(1.2, 1.0, 1.4), at_least=1.2), True),
        (Row("lane", "pgbench", Spread(1.19, 1.0, 1.4), at_least=1.2), False),
        (Row("start", "the clock", Spread(2.0, 1.9, 2.1), at_most=2), True),
        (Row("start", "the clock", Spread(2.01, 1.9, 2.1), at_most=2), False),
        (Row("told", "nothing", Spread(1.0, 1.0, 1.0)), None),
    ],
)
def test_a_goal_counts_by_the_median(row: Row, met: bool | None) -> None:
    assert row.met is met


def test_a_missed_goal_stands_on_the_page_with_its_reason() -> None:
    row = Row("start", "the clock", Spread(3.0, 2.5, 3.5), at_most=2, unit=" s", note="the disk was slow")
    text = page([("cores", "2")], 5, [Findings([row], [Detail("a start", Rate(0.33))])])
    assert "| start | the clock | 3.00 s (2.50 to 3.50) | at most 2 s | **no** |" in text
    assert "- start: the disk was slow\n" in text
    assert "| cores | 2 |" in text


def test_a_request_is_what_http_wants() -> None:
    assert (
        request("GET", "/v1/runs", {"Accept": "*/*"})
        == b"GET /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n"
    )
    assert request("POST", "/x", {}, b"{}").endswith(b"Content-Length: 2\r\n\r\n{}")
