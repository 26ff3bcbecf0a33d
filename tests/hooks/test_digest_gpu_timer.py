from __future__ import annotations

import random

import pytest

from pd_tracer_hooks.digest.gpu.timer import MAX_DRIFT, Offset, TimerMap, measure


def test_each_reading_narrows_the_offset():
    offset = Offset.from_readings([(1000, 400, 1100), (2050, 1400, 2090), (3000, 2370, 3060)])
    # 600 to 700, then 650 to 690, then 630 to 690.
    assert (offset.at, offset.offset, offset.error) == (2370, 670, 20)


def test_readings_that_no_offset_fits_widen_the_error():
    offset = Offset.from_readings([(1000, 400, 1010), (9000, 1400, 9010)])
    assert offset.error >= (7600 - 610) // 2


def test_no_readings():
    with pytest.raises(ValueError, match="at least one"):
        Offset.from_readings([])


@pytest.mark.parametrize("drift", [0.0, 3e-6, -40e-6])
def test_times_are_right_to_within_the_error_between_and_after_measurements(drift):
    start, epoch = 5_000_000_000, 1_700_000_000_000_000_000
    chance = random.Random(1)

    def host(gpu: int) -> int:
        return epoch + gpu + round(drift * (gpu - start))

    def readings(at: int):
        moments = iter(range(at, at + 100_000_000, 20_000))

        def read():
            gpu = next(moments)
            before, after = chance.randrange(2000, 30_000), chance.randrange(2000, 30_000)
            return host(gpu) - before, gpu, host(gpu) + after

        return read

    timer = TimerMap(measure(readings(start), 25))
    for step in range(1, 5):
        timer = timer.updated(measure(readings(start + step * 30_000_000_000), 25))
    assert timer.drift == pytest.approx(drift, abs=1e-6)
    for later in (0, 1_000_000_000, 30_000_000_000):
        gpu = start + 4 * 30_000_000_000 + later
        allowed = timer.error_seconds() + 1e-6 * later / 1e9 + 1e-6
        assert timer.host_seconds(gpu) == pytest.approx(host(gpu) / 1e9, abs=allowed)


def test_a_clock_that_was_set_is_no_drift():
    timer = TimerMap(Offset(0, 1000, 5)).updated(Offset(1_000_000, 1_000_000_000, 5))
    assert timer.drift == 0.0
    assert timer.host_seconds(1_000_000) == pytest.approx(1.001)
    assert 0 < MAX_DRIFT < 1e-3


def test_two_measurements_at_one_moment():
    assert TimerMap(Offset(7, 1, 1)).updated(Offset(7, 2, 1)).drift == 0.0
