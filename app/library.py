"""Models as requests ask for them: the right kind, on this machine, and loaded when they are first needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from app.errors import ModelAbsentError, WrongModelKindError
from app.jobs import ModelStatus
from app.worker import ModelWorker
from models.contract import Kind, Model

_DOES: dict[str, str] = {"text-to-speech": "speaks", "translation": "translates"}


class ModelInfo(Protocol):
    """A catalogue entry, as the service reads it."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> Kind: ...

    @property
    def status(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def license(self) -> str: ...

    @property
    def aliases(self) -> Sequence[str]: ...

    @property
    def install_command(self) -> str | None: ...

    @property
    def install_hint(self) -> str: ...

    @property
    def cloning(self) -> bool: ...


class Catalogue(Protocol):
    """The catalogue of models, as the service reads it."""

    def models(self) -> Sequence[ModelInfo]: ...

    def default(self) -> str: ...

    def default_translator(self) -> str: ...

    def resolve(self, name: str | None) -> str: ...

    def kind(self, name: str) -> Kind: ...

    def present(self, name: str) -> bool: ...

    def load(self, name: str) -> Model: ...


def require(catalog: Catalogue, worker: ModelWorker, name: str, kind: Kind) -> None:
    """See that the model with the canonical name `name` is of `kind`, and is loaded or begins to load.

    Raises WrongModelKindError, and ModelAbsentError with the command that installs the weights.
    """
    own = catalog.kind(name)
    if own != kind:
        able = ", ".join(info.name for info in catalog.models() if info.kind == kind)
        raise WrongModelKindError(
            f"Model '{name}' {_DOES[own]}; asked for is one that {_DOES[kind]}: {able or 'none'}."
        )
    if worker.state(name).status in (ModelStatus.IDLE, ModelStatus.ABSENT):
        if not catalog.present(name):
            hint = next(info.install_hint for info in catalog.models() if info.name == name)
            raise ModelAbsentError(f"The weights of model '{name}' are not on this machine. {hint}")
        worker.request_load(name)
