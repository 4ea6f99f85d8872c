"""What people write today: LightGBM behind FastAPI. ``serving.py`` starts it.

    python benchmarks/serving_peer.py MODEL.txt PORT THREADS

THREADS are LightGBM's for one request; 0 is its own default, all processors.
"""

from __future__ import annotations

import sys
from typing import Any

import lightgbm
import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Documents(BaseModel):
    """The body of a request."""

    documents: list[list[float]]


def make_app(path: str, threads: int) -> FastAPI:
    app = FastAPI()
    booster = lightgbm.Booster(model_file=path)
    options: dict[str, Any] = {"num_threads": threads} if threads else {}

    @app.post("/rank")
    def rank(given: Documents) -> dict[str, Any]:
        features = np.array(given.documents)
        scores = np.asarray(booster.predict(features, **options))
        return {"scores": scores.tolist(), "order": np.argsort(-scores).tolist()}

    return app


def main() -> None:
    app = make_app(sys.argv[1], int(sys.argv[3]))
    uvicorn.run(app, port=int(sys.argv[2]), access_log=False, log_level="warning")


if __name__ == "__main__":
    main()
