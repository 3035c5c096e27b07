"""What is asked: suites, their axes and hyper-parameters."""
