"""Classification problems with documented, versioned protocols and fingerprinted data."""
