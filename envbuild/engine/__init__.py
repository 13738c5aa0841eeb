"""Container engines, behind the small protocols of ``envbuild.engine.protocol``."""
