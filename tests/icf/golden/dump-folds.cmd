dump --folds program
