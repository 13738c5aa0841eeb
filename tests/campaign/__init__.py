"""Faults on purpose, at random moments: killed commands, full disks, power cuts, many commands at once.

``python -m tests.campaign WHAT --seed N --count N``, or ``make crash`` and ``make load``. The seed decides everything
but the machine's own timing. Exit code 1 if anything was lost, wrong or left behind.
"""
