"""Two clients of a run store do anything in any order, and see what a dictionary would show."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from plackett.experiments.store import RunStore
from store_worker import identity, outcome

CLIENTS = st.sampled_from([0, 1])
TRIALS = st.integers(0, 3)


class StoreMachine(RuleBasedStateMachine):
    """The model: results by trial, the first one counts; claims by trial, of one owner each."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "runs.db"
        self.clients = [RunStore(self.path, lease=3600.0) for _ in range(2)]
        self.results: dict[int, int] = {}
        self.owners: dict[int, str] = {}

    @rule(client=CLIENTS, trial=TRIALS)
    def claim(self, client: int, trial: int) -> None:
        store = self.clients[client]
        is_free = self.owners.get(trial, store.owner) == store.owner
        assert store.claim(identity(trial)) == (is_free and trial not in self.results)
        if is_free and trial not in self.results:
            self.owners[trial] = store.owner
        elif is_free:
            self.owners.pop(trial, None)

    @rule(client=CLIENTS, trial=TRIALS)
    def release(self, client: int, trial: int) -> None:
        self.clients[client].release([identity(trial)])
        if self.owners.get(trial) == self.clients[client].owner:
            del self.owners[trial]

    @rule(client=CLIENTS, trial=TRIALS, result=st.integers(0, 9))
    def finish(self, client: int, trial: int, result: int) -> None:
        self.clients[client].finish(identity(trial), outcome(result))
        self.results.setdefault(trial, result)
        if self.owners.get(trial) == self.clients[client].owner:
            del self.owners[trial]

    @rule(client=CLIENTS)
    def release_dead(self, client: int) -> None:
        self.clients[client].release_dead()  # both owners live: nothing changes

    @rule(client=CLIENTS)
    def open_again(self, client: int) -> None:
        """A client that ends leaves its claims to their lease; the next one is another owner."""
        self.clients[client].close()
        self.clients[client] = RunStore(self.path, lease=3600.0)

    @invariant()
    def both_clients_see_the_model(self) -> None:
        trials = [identity(trial) for trial in range(4)]
        for store in self.clients:
            assert len(store) == len(self.results)
            assert set(store.finished(trials)) == {identity(trial).digest for trial in self.results}
            assert store.held() == {identity(trial).digest: owner for trial, owner in self.owners.items()}
            for trial, result in self.results.items():
                saved = store.get(identity(trial))
                assert saved is not None
                assert saved.scores.tolist() == outcome(result).scores.tolist()

    def teardown(self) -> None:
        for store in self.clients:
            store.close()
        self.folder.cleanup()


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=12, stateful_step_count=15, deadline=None)
