"""The hook: seeds and deterministic switches in every Python process, without an edit of the script.

``startup`` is imported by the ``.pth`` file at every start of the environment's interpreter (also under ``-E`` and
``-I``). It imports no framework: ``finder`` waits until the program does, and sets the switches right after.
"""
