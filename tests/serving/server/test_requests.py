"""Bodies of requests: the scanner and the careful reader agree; nothing hostile gets through."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

pytest.importorskip("starlette", reason="pip install 'plackett[serve]'")

from plackett.base.decimals import exact_float32
from plackett.serving.server.http import HTTPError
from plackett.serving.server.requests import FeatureNames, read_bytes, read_carefully, read_json
from plackett.serving.server.scanner import scan_body
from plackett.serving.server.settings import Limits

pytestmark = pytest.mark.kernels

NAMES = FeatureNames(("bm25", "größe", "clicks"))
ODD = FeatureNames(('say "x"', "tab\there", "", "back\\slash", "plain"))
LIMITS = Limits(body=10_000, documents=4, lists=3)


def encode(data, **options):
    return json.dumps(data, **options).encode()


def scan(body, names=NAMES, limits=LIMITS):
    return scan_body(body, names.table, limits)


def same(a, b):
    return (
        np.array_equal(a.features, b.features, equal_nan=True)
        and np.array_equal(np.signbit(a.features), np.signbit(b.features))
        and a.offsets.tolist() == b.offsets.tolist()
        and (a.ids, a.top, a.is_single) == (b.ids, b.top, b.is_single)
    )


def test_one_list_by_vector_and_by_name() -> None:
    body = encode({"documents": [[1, 2.5, None], {"clicks": 3, "größe": -0.5, "bm25": 1e-3}]})
    lists = read_json(body, NAMES, LIMITS)
    expected = np.array([[1, 2.5, np.nan], [1e-3, -0.5, 3]], np.float32)
    assert np.array_equal(lists.features, expected, equal_nan=True)
    assert lists.is_single
    assert lists.n_lists == 1
    assert lists.ids == (None,)


def test_a_batch_with_ids_and_top() -> None:
    data = {"top": 2, "lists": [{"ids": ["a", 7], "documents": [[1, 2, 3], [4, 5, 6]]}, {"documents": [[7, 8, 9]]}]}
    for lists in (scan(encode(data)), read_carefully(encode(data), NAMES, LIMITS)):
        assert lists.offsets.tolist() == [0, 2, 3]
        assert lists.features[:, 0].tolist() == [1, 4, 7]
        assert lists.ids == (["a", 7], None)
        assert (lists.top, lists.is_single) == (2, False)


@pytest.mark.parametrize("absent", ["missing", "zero"])
def test_features_that_are_left_out_are_read_as_the_client_says(absent) -> None:
    body = encode({"documents": [{"clicks": 1}, {}, {"bm25": None}], "absent": absent})
    fast, careful = scan(body), read_carefully(body, NAMES, LIMITS)
    fill = 0.0 if absent == "zero" else np.nan
    expected = np.array([[fill, fill, 1], [fill] * 3, [np.nan, fill, fill]], np.float32)
    assert np.array_equal(fast.features, expected, equal_nan=True)
    assert same(fast, careful)


def test_many_sparse_documents_fit_although_their_text_is_short() -> None:
    wide = FeatureNames(tuple(f"f{j}" for j in range(50)))
    body = encode({"documents": [{} for _ in range(900)], "absent": "zero"})
    lists = scan(body, wide, Limits())
    assert lists.features.shape == (900, 50)
    assert not lists.features.any()


def test_names_that_json_escapes_are_found() -> None:
    document = {name: j for j, name in enumerate(ODD.names)}
    lists = read_json(encode({"documents": [document]}), ODD, LIMITS)
    assert lists.features.tolist() == [[0, 1, 2, 3, 4]]
    for is_escaped in (True, False):
        body = encode({"documents": [{"bm25": 1, "größe": 2, "clicks": 3}]}, ensure_ascii=is_escaped)
        assert scan(body).features.tolist() == [[1, 2, 3]]
    unusual = b'{"documents": [{"bm25": 1, "gr\\u00F6\\u00DFe": 2, "\\u0063licks": 3}]}'
    assert scan(unusual) is None
    assert read_json(unusual, NAMES, LIMITS).features.tolist() == [[1, 2, 3]]
    twice = '{"documents": [{"bm25": 1, "größe": 2, "gr\\u00f6\\u00dfe": 2}], "absent": "zero"}'.encode()
    with pytest.raises(HTTPError, match="occurs twice"):
        read_json(twice, NAMES, LIMITS)


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    st.floats(allow_nan=False, allow_infinity=False, width=64).map(repr),
    st.integers(-(10**25), 10**25).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=8).map(str),
    st.from_regex(r"\A-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?\Z"),
)


@settings(max_examples=300, deadline=None)
@given(NUMBERS)
def test_every_number_becomes_the_nearest_float32(text) -> None:
    body = f'{{"documents":[[{text}, 1,{text}]]}}'.encode()
    expected = exact_float32(text)
    if not np.isfinite(expected):
        with pytest.raises(HTTPError, match="beyond float32"):
            read_json(body, NAMES, LIMITS)
        return
    for lists in (scan(body), read_carefully(body, NAMES, LIMITS)):
        if lists is not None:  # the scanner may leave a number to the other
            assert lists.features[0, 0] == lists.features[0, 2] == expected


def test_the_fast_reader_takes_what_clients_send() -> None:
    features = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    for data in (features.tolist(), features.astype(float).round(4).tolist(), [[1, 2, 3]]):
        for separators in ((",", ":"), (", ", ": ")):
            body = encode({"documents": data, "ids": list("ab")[: len(data)]}, separators=separators)
            assert scan(body) is not None


# ---- both readers, on anything ------------------------------------------------------------------

CELLS = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.text(max_size=3), st.just([]))
VECTORS = st.lists(CELLS, max_size=4) | st.lists(st.integers(0, 9), min_size=3, max_size=3)
NAMED = st.dictionaries(st.sampled_from(["bm25", "größe", "clicks", "x"]), CELLS, max_size=4)
DOCUMENTS = st.lists(VECTORS | NAMED | CELLS, max_size=5)
IDS = st.lists(st.text(max_size=3) | st.integers() | st.none(), max_size=4) | CELLS
GROUPS = st.fixed_dictionaries({}, optional={"documents": DOCUMENTS | CELLS, "ids": IDS, "x": CELLS})
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "documents": DOCUMENTS,
        "lists": st.lists(GROUPS | CELLS, max_size=4) | CELLS,
        "ids": IDS,
        "top": st.integers(-1, 3) | CELLS,
        "absent": st.sampled_from(["refuse", "missing", "zero", "never"]) | CELLS,
    },
)


@st.composite
def damaged(draw):
    """A body, perhaps with a byte changed, doubled or cut off."""
    data = draw(BODIES | CELLS | st.lists(CELLS, max_size=3))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r ")]))
    text = json.dumps(data, separators=separators, ensure_ascii=draw(st.booleans()))
    body = text.encode("utf-8", errors="surrogatepass")
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, max(len(body) - 1, 0)))
        new = draw(st.sampled_from([b"", b'"', b"\\", b"}", b"]", b",", b"0", b".", b"e", b"\xff", b"\0"]))
        body = body[:at] + new + body[at + draw(st.integers(0, 2)) :]
    return body


@settings(max_examples=600, deadline=None)
@given(damaged())
def test_the_two_readers_agree_and_refuse_with_a_reason(body) -> None:
    fast = scan(body)
    refusal = None
    try:
        careful = read_carefully(body, NAMES, LIMITS)
    except HTTPError as found:
        refusal = found
    if refusal is not None:
        assert refusal.status in (400, 413, 422)
        assert refusal.detail.isascii()
        assert fast is None
        return
    assert careful.n_docs == len(careful.features)
    assert not np.isinf(careful.features).any()
    if fast is not None:
        assert same(fast, careful)


FEATURE = st.none() | st.integers(-(10**6), 10**6) | st.floats(-1e30, 1e30)
GOOD_DOCUMENT = st.lists(FEATURE, min_size=3, max_size=3) | st.fixed_dictionaries(
    {}, optional={"größe": FEATURE, "clicks": FEATURE, "bm25": FEATURE}
)


@st.composite
def good(draw):
    """A body as clients send it."""
    lists = draw(st.lists(st.lists(GOOD_DOCUMENT, min_size=1, max_size=4), min_size=1, max_size=3))
    data = {"absent": draw(st.sampled_from(["missing", "zero"]))}
    groups = [{"documents": item, "ids": [f"d{i}" for i in range(len(item))]} for item in lists]
    data |= {"lists": groups} if draw(st.booleans()) else groups[0]
    shuffled = {key: data[key] for key in draw(st.permutations(list(data)))}
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r ")]))
    return json.dumps(shuffled, separators=separators, ensure_ascii=False).encode()


@settings(max_examples=200, deadline=None)
@given(good())
def test_good_bodies_are_read_alike_by_both(body) -> None:
    careful = read_carefully(body, NAMES, LIMITS)
    fast = scan(body)
    if fast is not None:  # None only for numbers halfway between two float32
        assert same(fast, careful)


HOSTILE = {
    "empty": (b"", 400, "not JSON"),
    "not json": (b"hello", 400, "line 1 column 1"),
    "cut off": (b'{"documents": [[1, 2', 400, "not JSON"),
    "deep arrays": (b'{"documents":' + b"[" * 4000 + b"]" * 4000 + b"}", 400, "nested"),
    "deep objects": (b'{"documents":' + b'{"bm25":' * 4000, 400, "nested"),
    "deep ids": (b'{"documents":[[1,2,3]],"ids":' + b"[" * 4000 + b"]" * 4000, 400, "not JSON"),
    "NaN": (b'{"documents":[[NaN,2,3]]}', 400, "NaN is not JSON"),
    "Infinity": (b'{"documents":[[1,-Infinity,3]]}', 400, "-Infinity is not JSON"),
    "huge": (b'{"documents":[[1e39,2,3]]}', 422, "beyond float32"),
    "huge exponent": (b'{"documents":[[1e999999999,2,3]]}', 422, "beyond float32"),
    "huge integer": (b'{"documents":[[' + b"9" * 5000 + b",2,3]]}", 422, "beyond float32"),
    "leading zero": (b'{"documents":[[01,2,3]]}', 400, "not JSON"),
    "leading plus": (b'{"documents":[[+1,2,3]]}', 400, "not JSON"),
    "bare point": (b'{"documents":[[1.,2,3]]}', 400, "not JSON"),
    "point and exponent": (b'{"documents":[[1.e5,2,3]]}', 400, "not JSON"),
    "hexadecimal": (b'{"documents":[[0x10,2,3]]}', 400, "not JSON"),
    "text for a number": (b'{"documents":[["1",2,3]]}', 422, "a number or null, got a text"),
    "boolean": (b'{"documents":[[true,2,3]]}', 422, "got a boolean"),
    "nested vector": (b'{"documents":[[[1],2,3]]}', 422, "got an array"),
    "too short": (b'{"documents":[[1,2]]}', 422, r"documents\[0\] has 2 features; the model has 3"),
    "too long": (b'{"documents":[[1,2,3],[1,2,3,4]]}', 422, r"documents\[1\] has 4 features"),
    "unknown name": (b'{"documents":[{"bm26":1}]}', 422, "no feature 'bm26'"),
    "missing name": (b'{"documents":[{"bm25":1,"clicks":2}]}', 422, "lacks 'gr.*absent"),
    "duplicate name": (
        '{"documents":[{"bm25":1,"größe":1,"clicks":1,"bm25":2}]}'.encode(),
        422,
        "'bm25' occurs twice",
    ),
    "duplicate member": (b'{"documents":[[1,2,3]],"documents":[[1,2,3]]}', 422, "occurs twice"),
    "duplicate top": (b'{"documents":[[1,2,3]],"top":1,"top":2}', 422, "occurs twice"),
    "unknown member": (b'{"documents":[[1,2,3]],"topp":1}', 422, "must not have 'topp'"),
    "both": (b'{"documents":[[1,2,3]],"lists":[]}', 422, "either"),
    "neither": (b"{}", 422, "either"),
    "no documents": (b'{"documents":[]}', 422, "at least one, got an empty array"),
    "no lists": (b'{"lists":[]}', 422, "at least one list"),
    "a list of lists": (b'{"lists":[[[1,2,3]]]}', 422, r"lists\[0\] must be an object"),
    "array": (b"[[1,2,3]]", 422, "must be an object"),
    "wrong ids": (b'{"documents":[[1,2,3]],"ids":["a","b"]}', 422, "array of 1"),
    "no ids": (b'{"documents":[[1,2,3]],"ids":[]}', 422, "array of 1"),
    "ids of another kind": (b'{"documents":[[1,2,3]],"ids":[1.5]}', 422, "or a whole number"),
    "long id": (b'{"documents":[[1,2,3]],"ids":[99999999999999999999]}', 422, "64 bits"),
    "half a pair": (b'{"documents":[[1,2,3]],"ids":["\\ud800"]}', 422, "surrogate"),
    "top of zero": (b'{"documents":[[1,2,3]],"top":0}', 422, "from 1"),
    "absent of another kind": (b'{"documents":[[1,2,3]],"absent":1}', 422, "one of refuse"),
    "invalid UTF-8": (b'{"documents":[{"\xff":1}]}', 400, "not UTF-8: byte 16"),
    "invalid UTF-8 in ids": (b'{"documents":[[1,2,3]],"ids":["\xc3("]}', 400, "not UTF-8"),
    "byte order mark": (b'\xef\xbb\xbf{"documents":[[1,2,3]]}', 400, "not JSON"),
    "UTF-16": ('{"documents":[[1,2,3]]}'.encode("utf-16"), 400, "not UTF-8"),
    "null byte": (b'{"documents":[[1,2,3]]}\0', 400, "not JSON"),
    "trailing": (b'{"documents":[[1,2,3]]}{}', 400, "not JSON"),
    "trailing comma": (b'{"documents":[[1,2,3],]}', 400, "not JSON"),
    "too many documents": (encode({"documents": [[1, 2, 3]] * 5}), 413, "the list has 5 documents; at most 4"),
    "too many lists": (encode({"lists": [{"documents": [[1, 2, 3]]}] * 4}), 413, "the batch has 4 lists; at most 3"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies_are_refused_with_the_reason(name) -> None:
    body, status, reason = HOSTILE[name]
    with pytest.raises(HTTPError, match=reason) as caught:
        read_json(body, NAMES, LIMITS)
    assert caught.value.status == status
    assert len(caught.value.detail) < 500


@pytest.mark.parametrize("repeat", ["", ', "bm25": 2'])
def test_colons_in_names_and_ids_do_not_hide_a_repeated_name(repeat) -> None:
    names = FeatureNames(("bm25", "text:title", "clicks"))
    document = f'{{"bm25": 1, "text:title": 2, "clicks": 3{repeat}}}'
    for ids in ('"a:b"', '"http://x:80"', '"\\u003a"', '"\\u003Ax:"'):
        body = f'{{"documents": [{document}], "ids": [{ids}], "absent": "refuse"}}'.encode()
        if repeat:
            assert scan(body, names) is None
            with pytest.raises(HTTPError, match="occurs twice"):
                read_json(body, names, LIMITS)
        else:
            assert read_json(body, names, LIMITS).ids == ([json.loads(ids)],)
            assert scan(body, names) is not None


def test_null_stands_for_an_optional_member_that_is_left_out() -> None:
    body = b'{"documents":[[1,2,3]],"ids":null,"top":null}'
    assert same(read_json(body, NAMES, LIMITS), read_json(b'{"documents":[[1,2,3]]}', NAMES, LIMITS))


def test_a_long_name_of_a_client_is_cut_in_the_reason() -> None:
    with pytest.raises(HTTPError, match=r"x{60}\.\.\.") as caught:
        read_json(encode({"documents": [{"x" * 5000: 1}]}), NAMES, LIMITS)
    assert len(caught.value.detail) < 200


def test_raw_bodies_hold_float32() -> None:
    features = np.array([[1, np.nan, -0.0], [4, 5, 6], [7, 8, 9]], "<f4")
    lists = read_bytes(features.tobytes(), "2, 1", NAMES, LIMITS)
    assert np.array_equal(lists.features, features, equal_nan=True)
    assert lists.offsets.tolist() == [0, 2, 3]
    assert read_bytes(features.tobytes(), None, NAMES, LIMITS).is_single


@pytest.mark.parametrize(
    ("count", "sizes", "status", "reason"),
    [
        (0, None, 400, "0 bytes"),
        (4, None, 400, "12 bytes each"),
        (6, "1", 400, "sum to 1; the body has 2"),
        (6, "2,0", 400, "from 1"),
        (6, "-1,3", 400, "from 1"),
        (6, "1" * 5000, 400, "from 1"),
        (6, "", 400, "from 1"),
        (15, None, 413, "documents; at most 4 are allowed"),
        (12, "1,1,1,1", 413, "the batch has 4 lists; at most 3 are allowed"),
    ],
)
def test_raw_bodies_of_the_wrong_size_are_refused(count, sizes, status, reason) -> None:
    with pytest.raises(HTTPError, match=reason) as caught:
        read_bytes(np.ones(count, "<f4").tobytes(), sizes, NAMES, LIMITS)
    assert caught.value.status == status


def test_infinite_raw_features_are_refused() -> None:
    with pytest.raises(HTTPError, match=r"document 1, feature 'gr\\xf6\\xdfe'"):
        read_bytes(np.array([1, 2, 3, 4, np.inf, 6], "<f4").tobytes(), None, NAMES, LIMITS)
