"""The live documents of runs: patches, versions, saves, and who serves what."""
