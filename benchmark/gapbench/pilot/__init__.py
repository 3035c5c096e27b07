"""A small balanced part of a suite, trained to see what the whole would cost and could decide."""
