"""Bodies of requests: JSON or bytes in, features of lists out, or the reason why not."""

from plackett.serving.server.bodies.json_body import read_json, warm_up
from plackett.serving.server.bodies.lists import Lists
from plackett.serving.server.bodies.names import FeatureNames
from plackett.serving.server.bodies.raw_body import read_raw

__all__ = ["FeatureNames", "Lists", "read_json", "read_raw", "warm_up"]
