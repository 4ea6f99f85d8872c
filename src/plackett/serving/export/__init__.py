"""Export: a fitted ranker as a file that a search engine or another library loads."""

from plackett.serving.export.exporting import export
from plackett.serving.export.forms import FORMS, Form

__all__ = ["FORMS", "Form", "export"]
