"""Keeps symcaches in a folder: finds, locks, replaces, evicts."""
