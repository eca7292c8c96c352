"""A finding as plain text: for the message of an exception, wherever that is shown."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from radixcheck.finding import Finding
from radixcheck.report.block import Origin, show_finding
from radixcheck.report.screen import Screen

WIDTH = 96
"""Columns. Whoever shows an exception moves its message in by a few more."""


def plain_text(finding: Finding, origin: Origin) -> str:
    """Return the whole block of `finding`, without colours."""
    text = StringIO()
    console = Console(
        file=text, width=WIDTH, color_system=None, markup=False, emoji=False, highlight=False
    )
    show_finding(Screen(console), finding, origin)
    return text.getvalue().rstrip()
