"""Pools of slots: correct ones, liars and honest near-misses.

``plain``    three correct pools in lists: exclusive, counted, paged
``tensors``  the same in torch, on any device
``liars``    one planted lie each, by which radixcheck itself is tested
``honest``   correct pools, each of which uses one freedom
"""
