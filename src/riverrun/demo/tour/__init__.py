"""The guided tour: real processes on a real river, killed on purpose, and every claim checked.

`scenes` tells the story, `roles` is what the processes do, `stage` starts and ends them, `screen` shows it.
"""
