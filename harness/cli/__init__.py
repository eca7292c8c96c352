"""The command line: wiring only, one module per command.

``app``      all commands together (start reading here)
``options``  what several commands take; ``settings`` what pyproject.toml adds
``runner``   judge a target, show and save what is found
``inside``   which call of a target Ctrl-C came into, and the traceback of what it raised
``errors``   from what went wrong to a message and an exit code of ``codes``
``results``  one trace replayed, on a target that ``sources`` finds for it
``claims``   what `smoke` checks in turn: ``promises``, ``plain`` calls to a tree on a ``bench``,
             and ``scripts`` for what is no tree
"""

from __future__ import annotations


def main() -> None:
    """Run the command line, as the script ``radixcheck`` does."""
    from radixcheck.cli.app import app

    app()
