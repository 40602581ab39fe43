"""The call graph over merged functions, as a networkx graph: for people, for analysis, and for the second reader.

jumps      what control goes through without leaving a frame: tail calls, outlined parts, slots of vtables
calls      the whole graph of an image: `unwind.graph(path)`
questions  circles of callers, paths, what keeps a fold class ambiguous
write      the graph as text: DOT, GraphML, JSON
"""
