"""Modules that go into `generated/` as they stand: the parts of the edge that do not depend on the contract."""
