"""Writes this repository's workflows from the templates of ``radixcheck init``.

Run it after an edit of a template, or of what is judged: ``python .github/own.py``. A test holds
the workflows to it.
"""

from pathlib import Path

from radixcheck.skeleton import Gaps, workflows

CHECKOUT = Path(__file__).resolve().parent.parent

OWN = Gaps(
    specs=("radix", "radix-paged", "pool-exclusive", "pool-counted", "pool-paged"),
    traces="corpora/regressions",
    known="",
    install=".",
    tool=".",
    tool_from_checkout=True,
)
"""Nothing to compare with: these targets are right, so whatever is found is new."""


def write() -> None:
    """Write the workflows."""
    for path, text in workflows(OWN).items():
        (CHECKOUT / path).parent.mkdir(parents=True, exist_ok=True)
        (CHECKOUT / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
