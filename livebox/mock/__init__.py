"""A server without a database that answers with the examples of the contract. `livebox mock` runs it."""
