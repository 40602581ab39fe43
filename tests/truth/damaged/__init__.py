"""Accuracy on stacks with missing frames: true stacks are damaged as profilers do, and asked about in each mode.

python -m tests.truth.damaged                                            the usual programs
python -m tests.truth.damaged --program cppcheck --compiler clang-fp
"""
