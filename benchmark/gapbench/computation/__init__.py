"""What a network computes: its traced operations, linear maps and Lipschitz constants."""
