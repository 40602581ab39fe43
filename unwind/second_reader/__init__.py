"""A second resolver: slow, and plain recursion over the call graph, so that the first can be compared with it.

It reads images with the code that all of `unwind` uses, and takes from `unwind.resolve` where an address stands
(`places`) and what becomes of an object (`moved`). Everything it concludes, it concludes by itself.

reach     which functions a call ends up in, by jumps
pointers  which functions a call through a pointer ends up in
pairs     whether one function may have called another
resolver  which functions each frame of a stack can be
"""
