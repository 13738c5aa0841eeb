"""The use cases, for the command line and for Python alike: values in, frozen results out, progress as events."""
