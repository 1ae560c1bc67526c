"""`netpipe.maxtext` with a stand-in for MaxText; `tox -e maxtext` has the real one."""

import sys
from functools import partial
from pathlib import Path

import pytest

from netpipe import maxtext
from netpipe.errors import InputError, MisuseError
from netpipe.jobs.targets import Target, resolve
from tests import fake_maxtext
from tests.command import Netpipe, document


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a configuration file; MaxText's stand-in is installed, for child processes too."""
    folder = tmp_path / "installed"
    folder.mkdir()
    fake_maxtext.install(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.syspath_prepend(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == "maxtext"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(maxtext, "_configure", maxtext._configure.__wrapped__)
    file = tmp_path / "my config.yml"
    file.write_text("")
    return str(file)


def test_the_loader_ends_with_the_data(config: str) -> None:
    """The end of an epoch ends the loader, although MaxText's training loop raises an error."""
    batches = list(maxtext.loader(config, "batches=3"))
    assert [batch["inputs"][0, 0] for batch in batches] == [0, 1, 2]


def test_the_error_of_a_pipeline_is_its_own(config: str) -> None:
    """The loader raises the pipeline's own error instead of MaxText's."""
    with pytest.raises(ValueError, match="disk on fire"):
        list(maxtext.loader(config, "batches=3", "fails=true"))


def test_a_target_names_a_configuration(config: str) -> None:
    """A target may name a file with a space in its name, and overrides."""
    made = resolve(Target.parse(f"netpipe.maxtext:loader '{config}' batches=2 out=gs://a:b/c"))
    assert isinstance(made, partial)
    assert made.args == (config, "batches=2", "out=gs://a:b/c")
    assert len(list(made())) == 2


def test_a_measurement_leaves_a_training_alone(config: str) -> None:
    """Checkpoints and other hosts are off, regardless of the user's settings."""
    settings, _ = maxtext._configure(
        config, "enable_checkpointing=true", "skip_jax_distributed_system=false", "eval_interval=5"
    )
    assert settings.eval_interval == "-1"
    assert settings.enable_checkpointing == "false"
    assert settings.skip_jax_distributed_system == "true"


@pytest.mark.parametrize("word", ["dataset_type=network", "netpipe_watch_dir=logs"])
def test_settings_of_this_package_are_registered(
    config: str, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """MaxText would refuse an unknown setting."""
    registered: list[bool] = []
    monkeypatch.setattr(
        "netpipe.workload.trainer.maxtext.register", lambda: registered.append(True)
    )
    maxtext._configure(config, "steps=3")
    assert not registered
    maxtext._configure(config, word)
    assert registered


def test_a_step_is_refused_where_the_training_loop_does_more(config: str) -> None:
    """A step is refused if the training loop does more than the step."""
    with pytest.raises(InputError, match="enable_diloco must not be set"):
        maxtext.step(config)


def test_a_target_names_a_factory() -> None:
    """Anything else is an unknown name of the module."""
    with pytest.raises(MisuseError, match="name must be one of"):
        resolve(Target.parse("netpipe.maxtext:batches my.yml"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["absent.yml"],
            "absent.yml: file must be a MaxText configuration, CONFIG.yml; found none",
        ),
        (["installed/maxtext.py"], "CONFIG.yml; found another file"),
        (["my config.yml", "batches"], "override must be key=value; found 'batches'"),
        (["my config.yml", "=3"], "override must be key=value; found '=3'"),
        (
            ["my config.yml", "no_such_key=3"],
            "'my config.yml' no_such_key=3: configuration must suit MaxText; found ValueError: ",
        ),
    ],
)
def test_wrong_input_is_named(
    config: str, netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch, words: list[str], says: str
) -> None:
    """The error has the file, the override or MaxText's message in one line."""
    monkeypatch.chdir(Path(config).parent)
    result = netpipe("measure", "--quiet", "--accelerator", "emulated:5ms", "--maxtext", *words)
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr) < 500
    assert result.stderr.count("\n") == 1


def test_without_maxtext_the_error_says_what_to_install(
    config: str, netpipe: Netpipe, tmp_path: Path
) -> None:
    """The error names the package and the Python versions."""
    missing = "raise ModuleNotFoundError(\"No module named 'maxtext'\")"
    fake_maxtext.install(tmp_path / "installed", missing)
    result = netpipe("measure", "--quiet", "--maxtext", config)
    assert result.exit_code == 2
    assert "needs Python 3.12 or 3.13; found No module named 'maxtext'" in result.stderr
    assert "pip install 'maxtext[cuda12]'" in result.stderr


def test_a_configuration_is_measured(config: str, netpipe: Netpipe) -> None:
    """An emulated accelerator needs no step, and the loader's own override reaches MaxText."""
    result = netpipe(
        "measure", "--maxtext", config, "batches=64", "--accelerator", "emulated:5ms",
        "--budget", 1, "--quiet", "--json",
    )  # fmt: skip
    found = document(result, "measurement.1.json")
    assert found["epoch_batches"] == 64
    assert found["batch_bytes"] == 2 * 8 * 4


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["batches=3", "--loader", "a:b"], "KEY=VALUE needs '--maxtext'; found 'batches=3'."),
        ([], "Missing option '--loader' or '--maxtext'."),
    ],
)
def test_overrides_and_loaders_belong_to_something(
    netpipe: Netpipe, words: list[str], problem: str
) -> None:
    """KEY=VALUE needs a configuration, and a measurement a loader."""
    result = netpipe("measure", *words)
    assert result.exit_code == 2
    assert problem in result.stderr
