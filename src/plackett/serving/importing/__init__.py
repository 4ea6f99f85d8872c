"""Models trained elsewhere, as rankers."""

from plackett.serving.importing.reading import FORMS, import_model

__all__ = ["FORMS", "import_model"]
