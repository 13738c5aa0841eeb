"""Layers of the virtual environment: wheels, small files, bytecode."""
