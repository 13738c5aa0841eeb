"""The numeric fingerprint: what this machine really computes, as one digest per library.

Version strings do not show which code a library chooses for a CPU or a GPU. These programs compute a little of
everything a training run leans on (libm, matrix products, convolutions, random numbers) from fixed inputs and digest
the bytes of the results. Protocol, one process per group:

    PYTHON -B -c PROGRAM GROUP        GROUP: numbers, tensorflow, torch or jax (``__main__.GROUPS``)

prints one JSON object, part to ``{"digest", "library", "version", "seconds"}``; a framework that is not installed has
no parts. Parts on a GPU are named by the framework's own number: ``torch.gpu0.convolution``. Frameworks run with
their deterministic operations, without TF32, whatever the lock has, since the point is to see the machine.
"""
