"""Files and folders: reading text, writing whole files, temporary folders, paths from users."""
