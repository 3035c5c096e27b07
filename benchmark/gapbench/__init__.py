"""gapbench: which numbers computed from a trained network predict its test gap?"""
