"""Logs as filters see them: any text, in which the stacks get the right names and all else stays as it is."""
