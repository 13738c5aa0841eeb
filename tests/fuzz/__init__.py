"""Every parser of bytes from outside, with inputs that nobody meant: ``python -m tests.fuzz``, or ``make fuzz``.

A parser may return a value or raise the project's own error. It may not raise another one, take more than five
seconds, or more than 512 MB. ``targets`` has the parsers; ``seeds`` good inputs, which are altered; ``corpus/`` small
inputs that reach more of the code than these, found by earlier runs; ``crashes/`` each input that once broke one.
"""
