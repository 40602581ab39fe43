dump --json bare
