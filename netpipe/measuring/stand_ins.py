"""The state and the aux that an emulated step returns in place of a real step's.

Both are pytrees of `jax.Array`s that can be waited for. Reading anything else raises an error that
says so.
"""

from typing import Any, NoReturn

import jax

from netpipe.errors import MisuseError
from netpipe.results.step_times import DeviceStep


class AbsentError(MisuseError, AttributeError):
    """An attribute that a stand-in does not have; `hasattr` and `getattr` see it as absent."""


def refuse_attribute(owner: str, name: str, why: str) -> NoReturn:
    """Refuse to read an attribute of a stand-in; `why` is a sentence with the way out.

    Raises:
        AbsentError: The attribute was read by the user's code.
        AttributeError: Python's protocols probe for this name, which begins with an underscore.
    """
    if name.startswith("_"):
        raise AttributeError(name)
    raise AbsentError(f"{owner}.{name} was read. {why}")


@jax.tree_util.register_pytree_node_class
class EmulatedState:
    """A state that only keeps the steps in order.

    Args:
        token: float32 (8, 8), ready when the step is done.
        device_step: When the device does the step that returned this state; None for an initial
            one.
    """

    def __init__(self, token: Any, device_step: DeviceStep | None = None) -> None:
        self._token = token
        self.device_step = device_step

    def tree_flatten(self) -> tuple[tuple[Any], None]:
        """Return the leaves, for `jax.tree`."""
        return (self._token,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[Any]) -> "EmulatedState":
        """Build it from its leaves."""
        return cls(*children)

    def __getattr__(self, name: str) -> NoReturn:
        refuse_attribute("state", name, _NO_STATE)

    def __getitem__(self, key: object) -> NoReturn:
        raise MisuseError(f"state[{key!r}] was read. {_NO_STATE}")

    def __iter__(self) -> NoReturn:
        raise MisuseError(f"the state was iterated over. {_NO_STATE}")


@jax.tree_util.register_pytree_node_class
class OnlyLoss(dict[str, Any]):
    """The aux without a real step to stand in for: a dict with the only key `loss`."""

    def tree_flatten(self) -> tuple[tuple[Any], None]:
        """Return the leaves, for `jax.tree`."""
        return (self["loss"],), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[Any]) -> "OnlyLoss":
        """Build it from its leaves."""
        return cls(loss=children[0])

    def __missing__(self, key: object) -> NoReturn:
        raise MisuseError(f"aux[{key!r}] was read. {_ONLY_LOSS}")

    def __getattr__(self, name: str) -> NoReturn:
        refuse_attribute("aux", name, _ONLY_LOSS)

    def __float__(self) -> NoReturn:
        raise MisuseError(f"float(aux) was called. {_ONLY_LOSS}")


_NO_STATE = (
    "An emulated accelerator keeps no state: do not read it in what is measured, or "
    "measure on a real device (--accelerator auto)"
)
_ONLY_LOSS = (
    "Without a step to stand in for, an emulated accelerator's aux is a dict with 'loss' alone: "
    "give --step (or the fixture netpipe_step)"
)
