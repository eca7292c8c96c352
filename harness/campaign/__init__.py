"""Campaigns: many workers, a corpus that grows, and a folder from which all of it goes on.

``unit``      the unit of work, a pure function from a task to a harvest (start reading here)
``features``  what makes a trace worth keeping, and which few traces have all of it
``drivers``   what proposes the traces of a task, by its name
``shares``    which target and which driver the next task is for
``standing``  what a campaign knows of one target
``state``     the folder: tallies, corpus, findings
``pool``      what runs tasks: ``workers`` on this machine, each of them a ``worker``, or ``ray``
``night``     the conductor: hands out tasks and takes in harvests until time is up
"""
