"""MariaDB as a source of captures: its binary log by GTIDs, and chunks of its tables."""
