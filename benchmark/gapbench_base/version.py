"""The one version of all packages."""

__version__ = "0.1.0"
