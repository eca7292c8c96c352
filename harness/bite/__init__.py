"""Proof of bite: public bugs, planted in our own targets, and how fast whoever hunts them finds
them.

``trial``     one hunt, as a line of JSON: which bug, by whom, from which seed, how it ended
``hunt``      what a hunter is given, and the table of hunters: ours, and the peers
``plain``     the operations that anybody would think of, and the uniform random loop
``machine``   ... as a state machine of Hypothesis's (only where it is installed)
``covering``  ... and under Atheris (only where it is installed)
``sums``      a judge that knows conservation sums only: what counters miss
``work``      hunts, one after the other in each worker
``figures``   medians, their intervals, ratios
``chart``     survival curves
``document``  docs/bite.md

And mistakes that nobody has made yet, docs/generated-mutants.md:

``operators`` one mistake in a source, wherever it can be made
``generated`` all of them in our correct targets, and which of them no caller can tell
``alone``     the hunt for each, in a process of its own
"""
