"""The pipeline and the step of this repository, as fixtures for every test in it."""

pytest_plugins = ["fixtures.dataset", "fixtures.pipeline", "fixtures.step"]
