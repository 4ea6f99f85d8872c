"""The tables of a run store.

``trial``
    One row per finished trial; its digest is the primary key, so no trial can count twice.
``per_list``
    The values of a metric for the test lists of a trial.
``claim``
    Trials that a process is at work on, and until when that is believed without a word from it.
"""

from __future__ import annotations

from plackett.base.errors import StoreError
from plackett.experiments.store.database import Database

VERSION = 1

_TABLES = (
    "CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS trial (
        digest TEXT PRIMARY KEY,
        identity TEXT NOT NULL,
        system TEXT NOT NULL,
        data TEXT NOT NULL,
        seconds {real} NOT NULL,
        curves TEXT NOT NULL,
        scores {blob} NOT NULL,
        owner TEXT NOT NULL,
        finished {real} NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS per_list (
        digest TEXT NOT NULL REFERENCES trial (digest),
        metric TEXT NOT NULL,
        numbers {blob} NOT NULL,
        PRIMARY KEY (digest, metric))""",
    """CREATE TABLE IF NOT EXISTS claim (
        digest TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        expires {real} NOT NULL)""",
)


def prepare(database: Database) -> None:
    """Make the tables if they are not there; refuse those of a later version."""

    def make() -> str:
        for table in _TABLES:
            database.execute(table.format(blob=database.blob, real=database.real))
        database.execute(
            "INSERT INTO about (name, value) VALUES ('schema', ?) ON CONFLICT (name) DO NOTHING",
            (str(VERSION),),
        )
        ((found,),) = database.execute("SELECT value FROM about WHERE name = 'schema'")
        return str(found)

    found = database.atomically(make, alone=True)
    if found != str(VERSION):
        raise StoreError(
            database.place,
            f"was written by another version of plackett (form {found}, this one reads form "
            f"{VERSION}); use that version, or another store.",
        )
