"""From labels to groups: which variables are free, which channels may be mixed, which streams rotated."""
