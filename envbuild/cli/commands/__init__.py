"""The commands: options parsed, one use case called, its result rendered."""
