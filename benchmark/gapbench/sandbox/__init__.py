"""Where strangers' code runs: apart from everything it must not see."""
