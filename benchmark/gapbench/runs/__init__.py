"""What a run holds: records, weights, tables, entries, and which population it is."""
