"""The models of a dataset: keys to ids, names and versions."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.limits import MAX_MODELS


@dataclass(slots=True)
class Model:
    """A model that a dataset names.

    Attributes:
        id: Its number.
        name: Its name, ``None`` while the dataset does not say.
        version: Its version, if the dataset says.
        listed: Whether the dataset's own list of models has it.
        answers: Whether some answer is its.
    """

    id: int
    key: str
    name: str | None = None
    version: str | None = None
    listed: bool = False
    answers: bool = False


class DatasetModels:
    """All models of a dataset, in the order in which they are first named.

    Args:
        faults: Where contradictions are noted.
        default: Key for answers that name no model, where the dataset does not list a single one.
        named: Key that the user gave to the model of such answers, ``""`` if none.
    """

    def __init__(self, faults: Faults, default: str, *, named: str = "") -> None:
        self._faults = faults
        self._default = default
        self._named = named
        self._unnamed: Model | None = None
        self._unnamed_at: Place | None = None
        self._by_key: dict[str, Model] = {}

    def of_answer(self, key: str | None, place: Place) -> int:
        """Return the id of the model that an answer names, or of the one that the dataset leaves unnamed."""
        key = key or self._named or None
        if key is None:
            if self._unnamed is None:
                self._unnamed, self._unnamed_at = Model(self._next_id(place), self._default, answers=True), place
            return self._unnamed.id
        model = self._by_key.get(key) or self._new(key, place)
        model.answers = True
        return model.id

    @property
    def fallback(self) -> str:
        """Key for an answer that may leave its model unnamed where others name theirs."""
        return self._named or self._default

    def describe(self, place: Place, key: str, name: str | None, version: str | None, *, listed: bool = False) -> None:
        """Note a model's name and version; a dataset may not contradict itself.

        Args:
            listed: Whether this is the dataset's list of models, which names each once.
        """
        model = self._by_key.get(key) or self._new(key, place)
        if listed and model.listed:
            self._faults.add(place, "key", f"model {key!r} is listed a second time")
        for column, old, new in (("name", model.name, name), ("version", model.version, version)):
            if old is not None and new is not None and old != new:
                self._faults.add(place, column, f"model {key!r} has {column} {new!r} here and {old!r} before")
        model.listed = model.listed or listed
        model.name = model.name or name
        model.version = model.version or version

    def contradicts(self, key: str, name: str | None, version: str | None) -> bool:
        """Return whether a description of a model says anything else than what is known of it."""
        model = self._by_key.get(key)
        if model is None:
            return False
        pairs = ((model.name, name), (model.version, version))
        return any(old is not None and new is not None and old != new for old, new in pairs)

    def with_answers(self) -> list[Model]:
        """Return the models that answered something; the unnamed one takes the place of the only listed one."""
        models = [model for model in self._by_key.values() if model.answers]
        if self._unnamed is None:
            return models
        others = models or [model for model in self._by_key.values() if model.listed]
        if models or len(others) > 1:
            keys = ", ".join(repr(model.key) for model in others[:5])
            self._faults.add(self._unnamed_at, "", f"the answer names no model; the dataset has {keys}")
        if len(others) == 1 and not models:
            return [Model(self._unnamed.id, others[0].key, others[0].name, others[0].version, answers=True)]
        return [*models, self._unnamed]

    def notes(self) -> list[str]:
        """Return what the user should know of the name that was given."""
        if not self._named or self._named in self._by_key:
            return []
        return [f"every answer names its model, so none is called {self._named!r}"]

    def without_answers(self) -> list[str]:
        """Return the keys of the listed models that answered nothing."""
        answered = {model.key for model in self.with_answers()}
        return [model.key for model in self._by_key.values() if model.key not in answered]

    def _new(self, key: str, place: Place) -> Model:
        model = self._by_key[key] = Model(self._next_id(place), key)
        return model

    def _next_id(self, place: Place) -> int:
        taken = len(self._by_key) + (self._unnamed is not None)
        if taken >= MAX_MODELS:
            self._faults.stop(
                place, "", f"the dataset names more than {MAX_MODELS:,} models; is this column the model?"
            )
        return taken
