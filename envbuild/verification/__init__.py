"""Several runs of one program judged: equal or not, where they part, and why that may be. Pure: values in, values out.

``judge`` compares results, ``first`` names the first difference of the step traces, ``causes`` ranks what may be behind
it (``calls`` and ``uses`` read sources, ``lines`` texts), ``diagnosis`` adds what one more run shows, ``attestation``
is what was proved as a document. Docs: docs/verify.md.
"""
