"""What an emulated step returns: pytrees, and one clear sentence for what they do not have."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.errors import MisuseError
from netpipe.measuring.training.emulated_step import EmulatedState, EmulatedStep, OnlyLoss


@pytest.fixture
def state() -> EmulatedState:
    """A state with its token."""
    return EmulatedState(jnp.zeros((8, 8)))


@pytest.fixture
def aux() -> OnlyLoss:
    """An aux with its loss."""
    return OnlyLoss(loss=jnp.float32(2))


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda state: state.params, "state.params was read"),
        (lambda state: state.token, "state.token was read"),
        (lambda state: state["params"], r"state\['params'\] was read"),
        (list, "the state .*iterated"),
        (dict, "the state .*iterated"),
        (lambda state: state.replace(step=1), "state.replace was read"),
    ],
)
def test_a_state_says_that_it_is_none(
    state: EmulatedState, read: Callable[[Any], object], words: str
) -> None:
    """Whatever is read of it is named, with the reason."""
    with pytest.raises(MisuseError, match=f"{words}.*--accelerator auto"):
        read(state)


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda aux: aux["accuracy"], r"aux\['accuracy'\] was read"),
        (lambda aux: aux.loss, "aux.loss was read"),
        (float, r"float\(aux\) was called"),
    ],
)
def test_an_aux_says_that_it_has_a_loss_alone(
    aux: OnlyLoss, read: Callable[[Any], object], words: str
) -> None:
    """Another key is named, with the way to get it."""
    with pytest.raises(MisuseError, match=f"{words}.*--step"):
        read(aux)


def test_an_aux_is_a_dict_all_the_same(aux: OnlyLoss) -> None:
    """What a trainer does with a dict of metrics works."""
    assert list(aux) == ["loss"]
    assert {name: float(value) for name, value in aux.items()} == {"loss": 2.0}
    assert isinstance(jax.device_get(aux), dict)
    assert jax.tree.map(float, aux)["loss"] == 2.0


def test_a_state_is_a_pytree(state: EmulatedState) -> None:
    """Its only leaf is the token; it goes through `jax.tree` and `jax.jit`."""
    (token,) = jax.tree.leaves(state)
    assert token.shape == (8, 8)
    assert isinstance(jax.jit(lambda state: state)(state), EmulatedState)


def test_protocols_find_nothing(state: EmulatedState, aux: OnlyLoss) -> None:
    """`hasattr` finds no attribute, and numpy takes it for an object."""
    assert not hasattr(state, "__array__")
    assert not hasattr(state, "params")
    assert getattr(aux, "loss", None) is None
    assert np.asarray(state, dtype=object).shape == ()


def test_a_protocols_name_is_no_misuse() -> None:
    """Names that begin with an underscore raise a plain AttributeError."""
    with pytest.raises(AttributeError) as raised:
        EmulatedStep(0.1).__array__  # noqa: B018  # reading it raises
    assert not isinstance(raised.value, MisuseError)
