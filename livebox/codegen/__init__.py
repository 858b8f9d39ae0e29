"""The code generator: `openapi.yaml` and `asyncapi.yaml` in, the package `generated/` out.

Every file is a pure function of the two documents, so that two runs give the same bytes. The steps are one module each:
`documents` loads, `contract` reads the operations, the other modules each write one kind of file and `output` compares
or stores what came out.
"""
