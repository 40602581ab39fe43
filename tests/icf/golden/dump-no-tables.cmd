dump bare
