"""Long trials that no gate runs: how often verdicts, diagnoses and the gate are right."""
