"""The call graph over merged functions, as a networkx graph: for people, for analysis, and for the second resolver.

jumps      control flow that leaves no frame: tail calls, outlined parts, slots of vtables
calls      the whole graph of an image, with names: `unwind.graph(path)`
questions  circles of callers, paths, what keeps a fold class ambiguous
write      the graph as text: DOT, GraphML, JSON
"""
