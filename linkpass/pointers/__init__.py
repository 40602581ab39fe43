"""Where pointers and vtables may lead: addresses that are taken, slots, calls and jumps through them."""
