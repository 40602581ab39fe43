"""A second resolver: slow, and plain recursion over the call graph, to compare with the first.

It reads images with the code that all of `unwind` uses, and takes from `unwind.resolve` where an address stands
(`places`) and what becomes of an object (`moved`). It draws all conclusions with code of its own.

reach     which functions a call ends up in, by jumps
pointers  which functions a call through a pointer ends up in
pairs     whether one function may have called another
resolver  which functions each frame of a stack can be
"""
