"""What saved models hold: each tensor by name with type, shape and digest, read without running anything of the file.

Runs after the program, in a container of its own over the same image: without network, with the project read-only.
Protocol:

    PYTHON -I -S -B -c PROGRAM OUTPUT ROOT SITE FILE…

writes ``OUTPUT``, one JSON object: ``FILE`` to ``{"tensors": {NAME: {"dtype", "shape", "digest", "low", "high",
"norm"}}, "content", "count"}`` or ``{"unread": WHY}``. ``ROOT`` is the project, ``SITE`` the environment's packages:
h5py is needed for HDF5, NumPy for ``low``, ``high`` and ``norm`` only. The digest is the first 128 bits of the SHA-256
of the values in row-major order, so that it does not depend on how a format lays them out. ``content`` is the digest
of all tensors and of everything else in the file that is no time stamp.

Files are whatever a program left behind, so each is read by a child process with limits on memory and time: one that
harms its reader is "not read".
"""
