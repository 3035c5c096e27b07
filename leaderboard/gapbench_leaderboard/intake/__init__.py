"""A researcher's table from a file: encoding, delimiters, headings, cells, and what of it is no measure."""
