"""A session that diagnoses without a time limit: nothing is skipped on a busy machine."""

from unittest.mock import patch

from netpipe.diagnosis.experiments import turns
from netpipe.jobs.child import main

if __name__ == "__main__":
    with patch.object(turns, "max_duration_s", return_value=1e4):
        main()
