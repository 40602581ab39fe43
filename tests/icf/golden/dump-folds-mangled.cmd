dump --folds --no-demangle program
