dump --json program
