"""The proxies themselves: each module that registers one is found, by its file alone."""
