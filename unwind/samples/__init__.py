"""Stacks as they are read: return addresses, vtable pointers, which frames a signal interrupted."""
