"""The groups that act on a flat parameter vector: tangents, their transposes and finite transformations."""
