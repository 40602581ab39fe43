"""Virtual tables of the Itanium C++ ABI (sections 2.5, 2.6, 2.9): where they are, their slots, and their classes."""
