"""One builder per family, called with a `BuildRequest`; the registry names them."""
