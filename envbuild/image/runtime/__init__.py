"""Files of the runtime layer: guard, hook, expectations and the lock, as bytes by path."""
