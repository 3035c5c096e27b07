"""Whether a proxy is valid, pure, repeatable, and what it is invariant to."""
