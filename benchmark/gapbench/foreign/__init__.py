"""Networks that were trained elsewhere: measured alone, or imported as a population."""
