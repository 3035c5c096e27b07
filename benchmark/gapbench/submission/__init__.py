"""A proxy of a stranger on a trained population: submitted, and verified by others."""
