# Riverrun with Spark: the driver of a flow, and its executors on Kubernetes (deploy/flow.yaml).
# docker build -t riverrun . && docker run --rm riverrun riverrun doctor
FROM python:3.11-slim-bookworm

RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps tini \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/riverrun
COPY requirements.lock pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir '.[spark,postgres,kafka,serve,alerts]' \
 && python -m compileall -q "$(python -c 'import riverrun, os; print(os.path.dirname(riverrun.__file__))')"
COPY --chmod=755 deploy/entrypoint.sh /opt/entrypoint.sh

# Spark's executors write where they work; nobody needs to be root.
RUN useradd --uid 185 --create-home riverrun && install -d -o riverrun /work
USER riverrun
WORKDIR /work
ENTRYPOINT ["tini", "--", "/opt/entrypoint.sh"]
CMD ["riverrun", "--help"]
