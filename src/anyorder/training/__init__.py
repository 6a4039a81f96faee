"""Training: objectives turn clean token rows and random numbers into passes; the loss of a pass is always the same."""
