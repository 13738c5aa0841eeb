"""Several processes of one job: which rank this one is, and whether all of them run on equal machines."""
