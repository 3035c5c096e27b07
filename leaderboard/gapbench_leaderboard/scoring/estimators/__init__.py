"""One module per estimator, or per few that are made at once; found by scanning this package."""
