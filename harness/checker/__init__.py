"""The one place where model and tree meet.

``judge``     apply an operation to both, compare, move the model on (start reading here)
``trial``     all that is known during one trace
``keys``, ``locks``, ``evict``
              what is done about each kind of operation
``evictions`` what an eviction freed, and whether it might
``sizes``    the numbers a target reports
``explain``  which rule a wrong match broke
``structure`` a look inside, where a target shows its nodes
``witness``  the situations that a trace has reached
"""

from radixcheck.checker.judge import Checker

__all__ = ["Checker"]
