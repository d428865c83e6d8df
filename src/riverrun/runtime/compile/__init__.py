"""From a flow to a job: what tasks and the driver have to know to run it. Nothing here knows a particular operator."""
