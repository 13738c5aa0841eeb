"""What a store holds, for whom, whether it is sound, and how it gets to another machine."""
