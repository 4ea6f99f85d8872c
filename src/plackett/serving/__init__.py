"""From a fitted model to a search engine: export, import, serving."""
