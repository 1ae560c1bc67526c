"""Where the code of this process came from: a session of one version must not run another's."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from netpipe.harness.errors import MisuseError


def check_origin(
    code_from: str, not_from: Sequence[str], modules: Mapping[str, ModuleType] | None = None
) -> None:
    """Refuse a process that has loaded code of another checkout than its own.

    What lies in the environment of the interpreter was installed, wherever that environment is.

    Args:
        code_from: The checkout that this process is to run.
        not_from: Other checkouts of the same repository.
        modules: What was loaded; by default all that this process has.

    Raises:
        MisuseError: A module lies in one of `not_from`; the message names its file.
    """
    allowed = [Path(one).resolve() for one in (code_from, sys.prefix, sys.base_prefix)]
    others = [Path(one).resolve() for one in not_from]
    for name, file in _files(dict(sys.modules) if modules is None else modules):
        if _innermost(file, [*allowed, *others]) in others:
            raise MisuseError(
                f"this session must run the code of {code_from}; found {name} from {file}"
            )


def _files(modules: Mapping[str, ModuleType]) -> Iterator[tuple[str, Path]]:
    for name, module in modules.items():
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            yield name, Path(file).resolve()


def _innermost(file: Path, folders: Sequence[Path]) -> Path | None:
    around = (one for one in folders if file.is_relative_to(one))
    return max(around, key=lambda one: len(one.parts), default=None)
