"""What losses are called, in words that every place shares."""

MSE = (
    "half the squared error, summed over outputs, mean over examples: of one output half of torch's mse_loss"
)
