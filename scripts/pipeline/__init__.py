"""The image pipeline: locks become published images that nobody has to trust blindly."""
