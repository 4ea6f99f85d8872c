"""Models on disk: a folder of plain data and native files, never code."""
