"""Several runs of one program judged: equal or not, and what may have made them differ. Pure: values in, values out.

``judge`` compares results, ``causes`` ranks what may have made them differ (``calls`` and ``uses`` read sources,
``lines`` texts), ``diagnosis`` adds what one more run shows, ``attestation`` is what was proved as a document, ``cost``
compares ways to run by their time. Docs: docs/how-to/verify.md.
"""
