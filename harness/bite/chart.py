"""Survival curves: which share of the hunts still goes on after how long, one curve per driver."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from radixcheck.bite.trial import Trial

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 56, 176, 16, 44
FIRST_S = 0.001
"""Where the axis of time begins."""

COLOURS = ("#0b6e4f", "#c1121f", "#3a5a9b", "#b8860b", "#7b2d8b", "#666666")

STYLE = "font: 12px sans-serif; background: white"
GRID = 'stroke="#ddd"'


def survival(trials: Sequence[Trial]) -> list[tuple[float, float]]:
    """Return the corners of a curve: after so many seconds, so large a share survives. A hunt that
    was given up survives for good."""
    kills = sorted(each.elapsed_s for each in trials if each.killed)
    return [(time_s, 1 - place / len(trials)) for place, time_s in enumerate(kills, start=1)]


def draw(by_driver: Mapping[str, Sequence[Trial]]) -> str:
    """Draw the curves as SVG."""
    last_s = max((each.limit_s for trials in by_driver.values() for each in trials), default=1.0)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" style="{STYLE}">',
        "<title>Share of hunts that go on, by time</title>",
        *_grid(last_s),
    ]
    for place, (driver, trials) in enumerate(by_driver.items()):
        lines += _curve(driver, trials, COLOURS[place % len(COLOURS)], place, last_s)
    return "\n".join([*lines, "</svg>", ""])


def _x(time_s: float, last_s: float) -> float:
    share = math.log(max(time_s, FIRST_S) / FIRST_S) / math.log(last_s / FIRST_S)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)


def _grid(last_s: float) -> Iterable[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for tenths in range(0, 11, 2):
        y = _y(tenths / 10)
        yield f'<line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" {GRID}/>'
        label = f"{10 * tenths} %"
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    time_s = FIRST_S
    while time_s <= last_s:
        x = _x(time_s, last_s)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}" {GRID}/>'
        yield f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{time_s:g} s</text>'
        time_s *= 10
    middle = (LEFT + right) // 2
    yield f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">processor time</text>'


def _curve(
    driver: str, trials: Sequence[Trial], colour: str, place: int, last_s: float
) -> Iterable[str]:
    x, share = float(LEFT), 1.0
    path = [f"M{x:.1f} {_y(share):.1f}"]
    for time_s, share in survival(trials):
        path += [f"H{_x(time_s, last_s):.1f}", f"V{_y(share):.1f}"]
    given_up_s = max(each.limit_s for each in trials)
    path.append(f"H{_x(given_up_s, last_s):.1f}")
    yield f'<path d="{" ".join(path)}" fill="none" stroke="{colour}" stroke-width="2"/>'
    left, y = WIDTH - RIGHT + 16, TOP + 12 + 20 * place
    yield f'<rect x="{left}" y="{y - 9}" width="14" height="10" fill="{colour}"/>'
    yield f'<text x="{left + 20}" y="{y}">{escape(driver)}</text>'
