"""What `tier doctor` looks at: one file for each subject. Nothing here changes a server."""
