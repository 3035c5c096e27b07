"""Architectures whose width is a continuous multiplier."""
