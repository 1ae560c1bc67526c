"""Another version of this project, ready to be run: its code, and what it runs with."""

import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from netpipe.session.parent import ProcessEnvironment
from netpipe.suite.version_environments import Environment, needs_its_own, own, shared
from netpipe.suite.worktrees import Checkout, Commit, check_out, remove


@dataclass(frozen=True)
class Version:
    """Another version of the project.

    Attributes:
        checkout: Its code.
        environment: What it is run with.
    """

    checkout: Checkout
    environment: Environment

    def place(self, folder: Path) -> ProcessEnvironment:
        """Return where it is run when this version is run in `folder`."""
        there = self.checkout.there(folder.resolve())
        return self.environment.place(there if there.is_dir() else self.checkout.folder)

    def moved(self, words: Sequence[str], folder: Path) -> list[str]:
        """Return words of a command line with every path in this checkout moved into the other.

        What is not there (data that git does not know) is used from where it is here; only a test
        is never taken from here.

        Args:
            words: Arguments and flags of pytest.
            folder: What relative paths start from here.
        """
        return [self._moved(word, folder.resolve()) for word in words]

    def _moved(self, word: str, folder: Path) -> str:
        flag, equals, value = word.rpartition("=") if word.startswith("-") else ("", "", word)
        path, colons, name = value.partition("::")
        here = folder / path
        there = self.checkout.there(here)
        if not path or not (colons or here.exists()):
            return word
        if not colons and not there.exists():
            there = here
        elif not Path(path).is_absolute():
            return word
        return f"{flag}{equals}{there}{colons}{name}"


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM, which would leave everything behind, end this process as Ctrl-C does."""
    is_free = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not is_free or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would end the cleaning up
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def version_of(
    commit: Commit, project: Path, extras: str, say: Callable[[str], None]
) -> Iterator[Version]:
    """Check a commit out and find its environment; both are gone at the end, whatever happens.

    Args:
        commit: The other version.
        project: The folder of the project here.
        extras: The extras that an environment of its own gets.
        say: Tells the user what is going on.

    Raises:
        InputError: It cannot be checked out, or its environment cannot be made.
    """
    with (
        _interrupted_by_sigterm(),
        tempfile.TemporaryDirectory(prefix="netpipe-against-", ignore_cleanup_errors=True) as made,
    ):
        folder = Path(made, "checkout")
        try:
            checkout = check_out(commit, folder)
            if needs_its_own(checkout, project):
                say(f"{commit.ref} declares other dependencies: making an environment for it")
                environment = own(checkout, project, Path(made, "environment"), extras)
            else:
                say(f"{commit.ref} runs its own checkout, in this environment")
                environment = shared(checkout)
            yield Version(checkout, environment)
        finally:
            remove(commit, folder)
