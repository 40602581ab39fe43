dump --vtables program
