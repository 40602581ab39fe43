dump --vcall --json program
