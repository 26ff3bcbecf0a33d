"""The digest on a CUDA device: one Triton launch a call, asynchronous from end to end.

Importing this package costs nothing; :mod:`.backend` imports torch and triton. Read in this order:
:mod:`.plan` (what the kernel is told), :mod:`.kernel`, :mod:`.launch`, :mod:`.pools`, :mod:`.backend`.
"""
