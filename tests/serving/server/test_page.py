"""The page in a real browser: it ranks what is picked and pasted, and fits a telephone."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

pytest.importorskip("granian", reason="pip install 'plackett[serve]'")

from page_driver import browser, need_browser
from server_harness import TOKEN, Process, app_of, ask
from serving_models import NAMES, documents, fitted

X = documents(6, seed=2)
RANKING = "[...document.querySelectorAll('#list .name')].map((each) => each.textContent)"


@pytest.fixture(scope="module")
def server(saved, tmp_path_factory):
    need_browser()
    log = tmp_path_factory.mktemp("log") / "log"
    models = [saved("trees"), saved("linear")]
    result = Process(models, log=log, token=TOKEN).wait_until_ready()
    yield result
    result.stop()


@pytest.fixture(scope="module")
def window(server, tmp_path_factory):
    """A window that has opened the page and given the token."""
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        opened.open(f"http://127.0.0.1:{server.port}/")
        assert "token" in opened.run("return document.getElementById('error').textContent")
        opened.type("#token", TOKEN)
        opened.click("#token-field button")
        opened.wait(f"{RANKING}.length > 0")
        opened.complaints()  # of the first request, which had no token
        yield opened


def paste(window, text):
    window.run("document.getElementById('documents').value = arguments[0]", text)
    window.run("document.getElementById('list').replaceChildren()")
    window.click("#rank")
    window.wait(f"{RANKING}.length > 0 || document.getElementById('error').textContent")
    assert window.run("return document.getElementById('error').textContent") == ""
    return window.run(f"return {RANKING}")


def expected(model, names):
    order = np.argsort(-fitted(model).predict(X), kind="stable")
    return [names[i] for i in order]


def choose(window, model):
    window.run("document.getElementById('list').replaceChildren()")
    script = """
    const field = document.getElementById("model");
    field.value = arguments[0];
    field.dispatchEvent(new Event("change"));
    """
    window.run(script, model)
    window.wait(f"{RANKING}.length > 0")


TABLE = "\n".join(["name," + ",".join(NAMES)] + [f"d{i}," + ",".join(map(str, X[i])) for i in range(len(X))])
LETOR = "\n".join(f"0 qid:1 {' '.join(f'{j + 1}:{v}' for j, v in enumerate(row))} # d{i}" for i, row in enumerate(X))
PLAIN = [f"document {i + 1}" for i in range(len(X))]
NAMED = [f"d{i}" for i in range(len(X))]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (TABLE, NAMED),
        (TABLE.replace(",", "\t"), NAMED),
        (LETOR, NAMED),
        ("\n".join(" ".join(map(str, row)) for row in X), PLAIN),
        (json.dumps(X.tolist()), PLAIN),
        (json.dumps([dict(zip(NAMES, row, strict=True)) for row in X.tolist()]), PLAIN),
        (json.dumps({"documents": X.tolist(), "ids": NAMED}), NAMED),
    ],
    ids=["csv", "tsv", "letor", "blanks", "json", "json-names", "json-body"],
)
def test_pasted_documents_are_ranked(window, text, names) -> None:
    assert paste(window, text) == expected("trees", names)
    assert window.complaints() == []


def test_the_other_model_is_one_choice_away(window) -> None:
    choose(window, "linear")
    assert paste(window, TABLE) == expected("linear", NAMED)
    assert "Weight times value" in window.run("return document.getElementById('method').textContent")
    choose(window, "trees")


def test_examples_are_ranked_at_a_click_and_bars_tell_why(window) -> None:
    window.click("#examples button:nth-child(2)")
    window.wait("document.querySelector('#examples [aria-pressed=true]').textContent.endsWith('2')")
    window.wait(f"{RANKING}.length === 12")
    script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)"
    texts = window.run(script, "#list > li:first-child .number")
    numbers = [float(text.replace("−", "-")) for text in texts]
    assert 0 < len(numbers) <= 5
    assert [abs(x) for x in numbers] == sorted((abs(x) for x in numbers), reverse=True)
    script = "return [...document.querySelectorAll('#list .track i')].map((i) => i.offsetWidth)"
    assert max(window.run(script)) > 20  # styles set by the script are not blocked


def test_what_is_wrong_is_said(window) -> None:
    for text, reason in (
        ("", "Paste some documents"),
        ("1 2 3", "has 3 features; the model has 6"),
        ("[[1,2", "looks like JSON but is not"),
        ("a,b\n1,2", "None of the names"),
        ("1,2,3,4,5,x\n1,2,3,4,5,6", "None of the names"),
        ("0 qid:1 99:1", "the model has 6"),
        ("1,2,3,4,5,6\n1,2,3,4,5,oops", '"oops" is not a number'),
    ):
        window.run("document.getElementById('documents').value = arguments[0]", text)
        window.click("#rank")
        window.wait("!document.getElementById('rank').disabled")
        assert reason in window.run("return document.getElementById('error').textContent")
    window.complaints()  # of the refused request


def test_documents_cannot_bring_elements_into_the_page(window) -> None:
    attack = TABLE.replace("d0,", "<img src=x onerror=alert(1)>,")
    actual = paste(window, attack)
    assert "<img src=x onerror=alert(1)>" in actual
    assert window.run("return document.querySelectorAll('#list img').length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_telephone_in_the_light_and_in_the_dark(window, scheme) -> None:
    window.resize(500, 900)
    window.dark(scheme)
    paste(window, TABLE)
    wide, there = window.run("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= there
    colour = window.run("return getComputedStyle(document.body).backgroundColor")
    assert colour == ("rgb(22, 27, 33)" if scheme == "dark" else "rgb(255, 255, 255)")
    outside = """
    return [...document.querySelectorAll("#list *")].filter(
      (each) => each.getBoundingClientRect().right > window.innerWidth + 1).length
    """
    assert window.run(outside) == 0
    window.resize(1100, 1200)


def test_the_api_browser_lists_every_request_and_sends_them(server, window) -> None:
    window.open(f"http://127.0.0.1:{server.port}/docs")
    texts = "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)"
    names = window.run(texts, "summary code")
    assert {"/rank", "/models/{model}/versions/{version}/explain", "ListRequest"} <= set(names)
    window.type("#token", TOKEN)
    window.click("#list-of-operations details:first-child summary")
    window.wait("document.querySelector('textarea')?.value.includes('ids')")
    window.click("#list-of-operations button.main")
    window.wait("document.querySelector('#list-of-operations pre').textContent")
    (response,) = window.run(texts, "#list-of-operations pre")
    assert json.loads(response)["model"] == "trees"
    assert len(json.loads(response)["scores"]) == 2
    assert window.complaints() == []
    for scheme in ("light", "dark"):
        window.resize(500, 900)
        window.dark(scheme)
        wide, there = window.run("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= there


def test_the_pages_need_nothing_from_elsewhere(saved) -> None:
    with app_of({"m": saved("trees")}) as app:
        for path in ("/", "/docs"):
            page = ask(app, "GET", path)
            assert page.headers["content-type"].startswith("text/html")
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            for asset in re.findall(rb'(?:src|href)="(assets/[^"]*)"', page.body):
                result = ask(app, "GET", f"/{asset.decode()}")
                assert result.status == 200
                assert b"http" not in result.body
            assert b"http" not in page.body
        for path in ("/assets/", "/assets/index.html", "/assets/../app.py", "/assets/__init__.py"):
            assert ask(app, "GET", path).status == 404
