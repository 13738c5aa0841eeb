"""What of printed lines and texts is a time, a rate, memory or a drawn name, and is left out of comparisons."""
