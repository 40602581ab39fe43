dump corrupt
