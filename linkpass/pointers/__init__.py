"""Targets of pointers and vtables: functions whose address is taken, slots, calls and jumps through them."""
