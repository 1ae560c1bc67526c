"""Does `netpipe diagnose` name planted stages, and how accurate are its predictions?"""
