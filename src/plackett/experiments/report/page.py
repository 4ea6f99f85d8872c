"""HTML pages of experiments: Jinja2 templates in one style, each page a single file.

Templates escape whatever is put into them. A page loads nothing: its style and scripts are inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plackett.base.files import write_text

if TYPE_CHECKING:
    from jinja2 import Environment


def render_page(template: str, **values: Any) -> str:
    """The HTML of a template of this package with these values."""
    return template_environment().get_template(template).render(values)


def write_page(path: Path, template: str, **values: Any) -> None:
    """Write the HTML of a template to a file."""
    write_text(path, render_page(template, **values))


@cache
def template_environment() -> Environment:
    """Jinja2 with our filters; every value is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from plackett.experiments.report.charts import chart_html, line_class

    environment = Environment(
        loader=PackageLoader("plackett.experiments.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.globals["asset"] = lambda name: Markup(_asset(name))  # our own files
    environment.filters |= {
        "chart": chart_html,
        "line_class": line_class,
        "p_value": format_p_value,
        "setting": format_setting,
    }
    return environment


def _asset(name: str) -> str:
    folder = files("plackett.experiments.report").joinpath("templates")
    return folder.joinpath(name).read_text(encoding="utf-8")


def format_p_value(value: float) -> str:
    """A p-value with two digits.

    >>> format_p_value(0.0312), format_p_value(3e-7)
    ('0.031', '<0.0001')
    """
    return "<0.0001" if value < 1e-4 else f"{value:.2g}"


def format_setting(value: Any) -> str:
    """A setting as a user would write it in Python, without quotes.

    Parameters
    ----------
    value
        As model files hold it (:func:`plackett.models.artifact.save.encode`).

    Examples
    --------
    >>> format_setting({"$tuple": [64, 32]}), format_setting({"$tuple": []}), format_setting(None)
    ('(64, 32)', '()', 'None')
    >>> format_setting({"$objective": {"name": "xendcg", "order": 3}})
    'xendcg(order=3)'
    """
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(format_setting, value))}]"
    if not isinstance(value, Mapping):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if set(value) == {"$tuple"}:
        items = [format_setting(item) for item in value["$tuple"]]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if set(value) == {"$pairs"}:
        return format_setting(dict(value["$pairs"]))
    if len(value) == 1 and next(iter(value)).startswith("$"):
        return format_setting(next(iter(value.values())))
    name = next((str(value[key]) for key in _NAMES if key in value), "")
    arguments = {key: item for key, item in value.items() if key not in (*_NAMES, *_DIGESTS)}
    arguments |= arguments.pop("settings", {})
    inner = ", ".join(f"{key}={format_setting(item)}" for key, item in arguments.items())
    return f"{name}({inner})" if name and inner else name or inner or "{}"


_NAMES = ("name", "kind", "custom")
"""Where objectives, rankers and modules have their names."""
_DIGESTS = ("code", "sum")
