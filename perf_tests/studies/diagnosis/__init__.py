"""Whether `netpipe diagnose` names planted stages, and how far its predictions are off."""
