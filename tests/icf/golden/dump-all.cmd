dump program
