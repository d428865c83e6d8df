"""demo.py …: `riverrun …`, where the demo's flow runs without Spark."""

import sys
from pathlib import Path

from riverrun.cli import main
from riverrun.demo.shop import supervision

supervision.COMMAND = (sys.executable, str(Path(__file__).parent / "demo_without_spark.py"))

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
