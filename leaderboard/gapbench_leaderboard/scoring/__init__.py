"""The steps from a population and its measurements to scores."""
