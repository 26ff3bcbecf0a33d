from __future__ import annotations

import logging

import pytest

from pd_tracer_hooks.notices import AWAY_EVERY_S, COMPLAINTS, Notices


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, logger="pd_tracer")
    return caplog


def test_a_complaint_is_logged_once(log: pytest.LogCaptureFixture) -> None:
    notices = Notices("http://c")
    for _ in range(3):
        notices.once("no")
    assert log.messages == ["pd-tracer's collector: no"]
    for number in range(2 * COMPLAINTS):
        notices.once(f"no {number}")
    assert len(log.messages) == COMPLAINTS


def test_an_absence_is_told_when_it_begins_goes_on_and_ends(log: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    notices = Notices("http://c", clock=lambda: now[0])
    notices.back()
    notices.away("refused")
    notices.away("refused")
    now[0] = AWAY_EVERY_S
    notices.away("refused")
    now[0] += 1.5
    notices.back()
    notices.back()
    away = "pd-tracer's collector at http://c is away (refused); records wait"
    assert log.messages == [away, away, "pd-tracer's collector is back after 61.5 s"]


def test_one_that_comes_and_goes_does_not_fill_the_log(log: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    notices = Notices("http://c", clock=lambda: now[0])
    for _ in range(100):
        now[0] += AWAY_EVERY_S / 1000
        notices.away("503")
        notices.back()
    assert len(log.messages) == 2
