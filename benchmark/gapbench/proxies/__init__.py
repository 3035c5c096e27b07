"""Generalization proxies: numbers computed from a trained network and its training data."""
