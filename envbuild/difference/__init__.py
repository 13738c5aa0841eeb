"""Why two runs differ: causes ordered by consequence, the most likely first. Pure: values in, values out."""
