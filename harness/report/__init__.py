"""What people see: findings and results as text for a terminal, a pipe or a log.

``screen``   a console that trusts no text, with box drawing or without
``words``    numbers, runs of tokens and slots, durations: short and safe
``tree``     what is stored, drawn
``steps``    one operation and its outcome, in a few words
``owners``   which slot belongs to which prefix
``holdings`` who holds which slots
``block``    a finding in one block (start reading here)
``unjudged`` the rules that a target's promises rule out
``summary``  what a run has seen

Reports for others than terminals are made of one document:

``document`` what it holds (start reading here)
``parts``    from findings and results to a document
``written``  a document as files, by ``junit``, ``sarif``, ``markdown`` and ``page``
"""

from radixcheck.report.block import show_finding
from radixcheck.report.screen import Screen
from radixcheck.report.summary import show_report

__all__ = ["Screen", "show_finding", "show_report"]
