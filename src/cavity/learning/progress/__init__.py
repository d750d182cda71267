"""What a fit has reached, so that it can be gone on with."""
