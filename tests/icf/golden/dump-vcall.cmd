dump --vcall program
