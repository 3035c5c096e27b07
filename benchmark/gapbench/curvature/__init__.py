"""How the loss bends: gradients, Hessian products, traces and maxima, tested before they are believed."""
