"""The page on which people try models: one file, nothing from elsewhere."""

from plackett.serving.server.page.building import content_policy, html

__all__ = ["content_policy", "html"]
