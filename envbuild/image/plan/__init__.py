"""The plan of an image: which layers, in which order, made of what, and how the image is to be run."""
