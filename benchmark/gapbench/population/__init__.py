"""Plan, train and keep a population of networks."""
