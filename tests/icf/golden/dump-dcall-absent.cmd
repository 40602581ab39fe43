dump --dcall folds-only
