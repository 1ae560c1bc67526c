"""The batches, the step and the graph of MaxText itself. `tox -e maxtext` has it."""

from pathlib import Path
from random import Random

import pytest
from array_record.python.array_record_module import ArrayRecordWriter

from tests.command import Netpipe, document
from tests.real_maxtext import losses, needs_maxtext, run, write_config

pytestmark = needs_maxtext

SETTINGS = """
dataset_type: grain
grain_train_files: {folder}/text.array_record
tokenizer_type: sentencepiece
tokenizer_path: {tokenizers}/tokenizer.llama2
steps: 4
"""
WORDS = ["a", "probe", "measures", "the", "latency", "of", "its", "path", "again", "and", "again"]
LOAD = """
from netpipe.grain_access.worker_start import let_grain_start_workers

if __name__ == "__main__":
    let_grain_start_workers()
    import sys

    from netpipe import maxtext

    batches = maxtext.loader(*sys.argv[1:])
"""
TRAIN = """
    state, step = maxtext.step(*sys.argv[1:])
    for _ in range(4):
        state, aux = step(state, next(batches))
        print(f"loss: {float(aux['scalar']['learning/loss']):.3f},")
"""
SHOW = """
    batch = next(batches)
    print([shard.data.shape for shard in batch["inputs"].addressable_shards])
    print(batch["inputs_position"][0].tolist())
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a configuration of a tiny model on four devices, with texts to train on."""
    import maxtext
    from maxtext.input_pipeline.protos.example_pb2 import Example

    writer = ArrayRecordWriter(str(tmp_path / "text.array_record"), "group_size:1")
    random = Random(0)
    for _ in range(2000):
        text = " ".join(random.choices(WORDS, k=random.randint(20, 200)))
        example = Example()
        example.features.feature["text"].bytes_list.value.append(text.encode())
        writer.write(example.SerializeToString())
    writer.close()
    tokenizers = Path(maxtext.__file__).parent / "assets" / "tokenizers"
    settings = SETTINGS.format(folder=tmp_path, tokenizers=tokenizers)
    return write_config(tmp_path, settings, monkeypatch)


def test_a_configuration_is_measured(config: Path, netpipe: Netpipe, tmp_path: Path) -> None:
    """A configuration is measured on all devices with its workers, without writing files."""
    result = netpipe("measure", "--maxtext", config, "grain_worker_count=2", "--quiet", "--json")
    found = document(result, "measurement.1.json")
    assert found["device"]["count"] == 4
    assert found["batch_bytes"] == 6 * 8 * 64 * 4
    assert found["loader_processes"] == 2
    assert found["losses_are_finite"]
    assert {path.name for path in tmp_path.iterdir()} == {"text.array_record", "tiny.yml"}


def test_the_losses_are_those_of_a_training(config: Path, tmp_path: Path) -> None:
    """Batches, order, initial state and step equal those of MaxText's own command."""
    (tmp_path / "train.py").write_text(LOAD + TRAIN)
    own = "enable_checkpointing=false", "skip_jax_distributed_system=true"
    trained = losses("-m", "maxtext.trainers.pre_train.train", config, *own)
    assert len(set(trained)) == 4
    assert losses(tmp_path / "train.py", config) == trained


def test_batches_are_sharded_and_reordered_as_in_a_training(config: Path, tmp_path: Path) -> None:
    """Load-balanced context parallelism gives each device an early and a late part."""
    (tmp_path / "show.py").write_text(LOAD + SHOW)
    mesh = "ici_fsdp_parallelism=2", "ici_context_parallelism=2", "packing=false"
    code, output = run(tmp_path / "show.py", config, *mesh)
    assert code == 0, output
    assert f"{[(4, 32)] * 4}" in output
    assert f"{[*range(16), *range(48, 64), *range(16, 48)]}" in output


def test_the_graph_of_the_dataset_is_linted(config: Path, netpipe: Netpipe) -> None:
    """The graph has MaxText's own transforms."""
    result = netpipe("lint", f"netpipe.maxtext:dataset {config}", "--quiet", "--json")
    found = document(result, "lint.1.json")
    transforms = str([node["parameters"].get("transform") for node in found["graph"]])
    assert "TokenizeAndTrim" in transforms
    assert [node for node in found["graph"] if node["kind"] == "Pack"]
