"""Bytecode: modules of wheels compiled so that the same sources give the same bytes."""
