"""CUDA: which framework, Python, toolkit, driver and GPU work together, and the wheels that follow."""
