"""Losses, derivatives, traces of the computation, linear maps: what proxies are computed from."""
