"""Stands in for the `cython` module when a kernel runs uncompiled and Cython is not installed."""

from contextlib import nullcontext

nogil = nullcontext()
compiled = False
