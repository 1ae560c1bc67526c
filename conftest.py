"""The pipeline and the step of this repository, as fixtures for every test in it."""

pytest_plugins = ["pytester", "fixtures.dataset", "fixtures.pipeline", "fixtures.step"]
