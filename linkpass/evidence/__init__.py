"""Evidence of calls, of each kind, and how it is merged; begin with `linkpass.evidence.collect`."""
