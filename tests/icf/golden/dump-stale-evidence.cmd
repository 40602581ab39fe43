dump stale
