"""From tables of measurements to scores and boards. Imports no torch."""
