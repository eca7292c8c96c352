"""A document as one HTML page that needs nothing else: no network, no library, no other file.

The document lies in the page as JSON, and ``page.js`` draws from it what a person opens. Whatever a
target may have said becomes text of an element there, never markup; here, ``<`` becomes an escape,
so that no text ends the script. A policy in the page forbids all that is not in it: what may run
and what styles it are named by their hashes.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template

from radixcheck.report.document import Document, encode

_ESCAPES = {each: f"\\u{ord(each):04x}".encode() for each in ("<", ">", "&", "\u2028", "\u2029")}


def dumps(document: Document) -> bytes:
    """Write `document` as a page."""
    style, script = _file("page.css"), _file("page.js")
    page = Template(_file("page.html")).substitute(
        title=escape(_title(document)),
        policy=escape(_policy(style, script)),
        style=style,
        data=_data(document).decode(),
        script=script,
    )
    return page.encode("utf-8", "replace")


def _file(name: str) -> str:
    return (files("radixcheck.report") / name).read_text(encoding="utf-8")


def _title(document: Document) -> str:
    found = sum(not each.excused for target in document.targets for each in target.findings)
    return f"radixcheck: {found} finding{'' if found == 1 else 's'}"


def _policy(style: str, script: str) -> str:
    """Allow this script and this style, and nothing else from anywhere."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _data(document: Document) -> bytes:
    """Write JSON that neither ends a script element nor starts a comment in it."""
    data = encode(document)
    for character, written in _ESCAPES.items():
        data = data.replace(character.encode(), written)
    return data
