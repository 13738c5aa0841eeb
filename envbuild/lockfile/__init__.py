"""The lock: a valid PEP 751 file whose ``[tool.envbuild]`` tables hold what PEP 751 has no field for."""
