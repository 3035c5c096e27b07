"""Builders of networks, a module for families of one kind; each family is declared above its builder."""
