"""The command line: wiring only, one module per command.

``app``      all commands together (start reading here)
``options``  what several commands take; ``settings`` what pyproject.toml adds
``runner``   judge a target, show and save what is found
``errors``   from what went wrong to a message and an exit code of ``codes``
``results``  one trace replayed, on a target that ``sources`` finds for it
``claims``   what `smoke` checks in turn: ``promises`` and ``plain`` calls, made on a ``bench``
"""

from __future__ import annotations


def main() -> None:
    """Run the command line, as the script ``radixcheck`` does."""
    from radixcheck.cli.app import app

    app()
