"""Tables: files with a header read as numbers, labels and categories, and models of them."""
