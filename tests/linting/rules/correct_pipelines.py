"""Every correct example: the judges of the rules, none of which may raise a false alarm."""

from typing import Final

from tests.linting.rules.correct_after_workers import AFTER_WORKERS
from tests.linting.rules.correct_language_models import LANGUAGE_MODELS
from tests.linting.rules.correct_others import OTHERS
from tests.linting.rules.correct_subtle import SUBTLE
from tests.linting.rules.correct_tutorials import TUTORIALS
from tests.linting.rules.pipeline_parts import CorrectPipeline

CORRECT: Final[tuple[CorrectPipeline, ...]] = (
    *TUTORIALS,
    *LANGUAGE_MODELS,
    *AFTER_WORKERS,
    *OTHERS,
    *SUBTLE,
)
