dump --json --vtables program
