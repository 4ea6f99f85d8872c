"""Typed bodies of requests and responses.

msgspec decodes requests into these types, encodes responses from them, and generates their JSON
schemas for the OpenAPI description.
"""

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from plackett.models.insight import Method

Feature: TypeAlias = Annotated[
    float | None, Meta(description="null is missing", extra_json_schema={"minimum": -3.4e38, "maximum": 3.4e38})
]
Document: TypeAlias = (
    Annotated[list[Feature], Meta(description="All features in their order")]
    | Annotated[dict[str, Feature], Meta(description="Features by name")]
)
LARGEST_ID = (1 << 63) - 1
Id: TypeAlias = str | Annotated[int, Meta(ge=-LARGEST_ID, le=LARGEST_ID)]
Absent: TypeAlias = Literal["refuse", "missing", "zero"]

_Documents: TypeAlias = Annotated[list[Document], Meta(min_length=1)]
RequestIds: TypeAlias = Annotated[list[Id], Meta(description="One per document; returned in the order of the ranking")]
Top: TypeAlias = Annotated[int, Meta(ge=1, description="Length of the order. [all]")]
_Absent: TypeAlias = Annotated[Absent, Meta(description="How to read features that a document by name omits. [refuse]")]


class BatchItem(Struct, forbid_unknown_fields=True):
    """One list of a batch."""

    documents: _Documents
    ids: RequestIds | None = None


class ListRequest(BatchItem):
    """One list of documents to rank."""

    top: Top | None = None
    absent: _Absent | None = None


class BatchRequest(Struct, forbid_unknown_fields=True):
    """Several lists of documents to rank."""

    lists: Annotated[list[BatchItem], Meta(min_length=1)]
    top: Top | None = None
    absent: _Absent | None = None


_Scores: TypeAlias = Annotated[list[float], Meta(description="One per document, in the order of the request")]
_Order: TypeAlias = Annotated[
    list[Annotated[int, Meta(ge=0)]],
    Meta(description="Positions of the documents in the request, best first; ties by position"),
]
_RankedIds: TypeAlias = Annotated[list[Id], Meta(description="The ids of the request in the order of the ranking")]
_Contributions: TypeAlias = Annotated[list[list[float]], Meta(description="Documents x features")]


class RankedList(Struct):
    """Scores and order of one list, and contributions in an explanation."""

    scores: _Scores
    order: _Order
    ids: _RankedIds | UnsetType = UNSET
    contributions: _Contributions | UnsetType = UNSET


class Ranking(Struct):
    """The response for one list."""

    model: str
    version: str
    scores: _Scores
    order: _Order
    ids: _RankedIds | UnsetType = UNSET


class RankingBatch(Struct):
    """The response for a batch, in the order of the request."""

    model: str
    version: str
    lists: list[RankedList]


class Explanation(Ranking, kw_only=True):
    """The response for one list, with the contributions of features to scores."""

    method: Method
    note: str
    base: float
    features: list[str]
    contributions: _Contributions | UnsetType


class ExplanationBatch(RankingBatch):
    """The response for a batch, with the contributions of features to scores."""

    method: Method
    note: str
    base: float
    features: list[str]


class ModelVersion(Struct):
    """Names one version of a model."""

    name: str
    version: str


class ModelVersions(ModelVersion):
    """A model, its current version and all its versions."""

    versions: list[str]


class ModelList(Struct):
    """All models."""

    models: list[ModelVersions]


class ModelInfo(ModelVersion):
    """One version of a model."""

    kind: str
    recipe: str | None
    summary: str
    takes_missing: bool
    features: list[str]


class Example(Struct):
    """A list to try."""

    name: str
    documents: list[list[float | None]]
    ids: list[Id]


class ExampleList(Struct):
    """Lists to try with a model."""

    model: str
    version: str
    made_up: bool
    examples: list[Example]


class ReloadResult(Struct):
    """What a reload has changed."""

    loaded: list[ModelVersion]
    removed: list[ModelVersion]
    problems: list[str]


class Health(Struct):
    """The process answers."""

    status: str


class Readiness(Health):
    """The server accepts requests."""

    models: int


class Problem(Struct):
    """Why a request was rejected (RFC 9457)."""

    title: str
    status: int
    detail: str
