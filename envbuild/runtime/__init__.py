"""What is copied into every image: the guard and the hook. Standard library only, Python 3.9 or newer.

In an image this package is called ``_envbuild`` and is in ``/opt/envbuild/lib``; imports between its modules
are relative, so that the host (``envbuild check``) and the tests use the very same files. Every start of the
interpreter pays for what is imported here: nothing imports ``json``, ``re``, ``enum`` or ``typing``.
"""
