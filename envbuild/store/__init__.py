"""The store: content-addressed files, who uses them, how they get there and to other machines."""
