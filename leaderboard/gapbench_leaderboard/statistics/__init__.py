"""Rank statistics of a table of networks and proxies."""
