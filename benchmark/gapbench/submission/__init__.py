"""A stranger's proxy: run apart from everything it must not see, checked, submitted, verified."""
