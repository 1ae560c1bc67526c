"""What an emulated step hands out in place of a real one's state and aux: little, and clear of it.

Both are pytrees of `jax.Array`s that wait as real ones do. Reading what they do not have says so.
"""

from typing import Any, NoReturn

import jax

from netpipe.errors import MisuseError
from netpipe.results.step_times import DeviceStep


class AbsentError(MisuseError, AttributeError):
    """An attribute that a stand-in does not have; `hasattr` and `getattr` see it as absent."""


def refuse_attribute(owner: str, name: str, why: str) -> NoReturn:
    """Say that a stand-in has no attribute of this name.

    Args:
        owner: What was asked, `state`.
        name: The attribute. Those that begin with an underscore belong to Python's protocols,
            whose askers only want to know.
        why: The reason and the way out, as a sentence.

    Raises:
        AbsentError: The name is the user's.
        AttributeError: The name is a protocol's.
    """
    if name.startswith("_"):
        raise AttributeError(name)
    raise AbsentError(f"{owner}.{name} was read. {why}")


@jax.tree_util.register_pytree_node_class
class EmulatedState:
    """A state that holds nothing but the order of the steps.

    Args:
        token: float32 (8, 8), ready when the step is done.
        device_step: When the device does the step that returned this state; None for an initial
            one.
    """

    def __init__(self, token: Any, device_step: DeviceStep | None = None) -> None:
        self._token = token
        self.device_step = device_step

    def tree_flatten(self) -> tuple[tuple[Any], None]:
        """Take it apart, as `jax.tree` wants it."""
        return (self._token,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[Any]) -> "EmulatedState":
        """Put it together."""
        return cls(*children)

    def __getattr__(self, name: str) -> NoReturn:
        refuse_attribute("state", name, _NO_STATE)

    def __getitem__(self, key: object) -> NoReturn:
        raise MisuseError(f"state[{key!r}] was read. {_NO_STATE}")

    def __iter__(self) -> NoReturn:
        raise MisuseError(f"the state was iterated over. {_NO_STATE}")


@jax.tree_util.register_pytree_node_class
class OnlyLoss(dict[str, Any]):
    """The aux of a step that nobody gave: a dict with the key `loss` alone."""

    def tree_flatten(self) -> tuple[tuple[Any], None]:
        """Take it apart, as `jax.tree` wants it."""
        return (self["loss"],), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[Any]) -> "OnlyLoss":
        """Put it together."""
        return cls(loss=children[0])

    def __missing__(self, key: object) -> NoReturn:
        raise MisuseError(f"aux[{key!r}] was read. {_ONLY_LOSS}")

    def __getattr__(self, name: str) -> NoReturn:
        refuse_attribute("aux", name, _ONLY_LOSS)

    def __float__(self) -> NoReturn:
        raise MisuseError(f"float(aux) was called. {_ONLY_LOSS}")


_NO_STATE = (
    "An emulated accelerator keeps no state: leave such reading out of what is measured, or "
    "measure on a real device (--accelerator auto)"
)
_ONLY_LOSS = (
    "Without a step to stand in for, an emulated accelerator's aux is a dict with 'loss' alone: "
    "give --step (or the fixture netpipe_step)"
)
