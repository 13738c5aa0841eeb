"""Whether a value follows a fixed clock, known entropy or given memory, and so is measured or drawn."""
