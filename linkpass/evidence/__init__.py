"""Evidence of calls, of each kind, and how it is merged; `linkpass.evidence.collect` is the way in."""
