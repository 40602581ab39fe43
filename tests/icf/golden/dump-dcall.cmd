dump --dcall program
