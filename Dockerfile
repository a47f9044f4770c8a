# Secor in a container: docker build -t secor .
#
#   docker run -v ./backup.toml:/etc/secor/secor.toml:ro -e SECOR_STORE__S3__SECRET_KEY secor
#   docker run --rm secor --help          every other command, the same way
#
# docs/deploy.md says more.

ARG PYTHON=3.12
# sha256:... of the base image.  Tags move, and so the tree names no digest.  A release looks it up
# and gives it, so that the build can be repeated:
#   docker buildx imagetools inspect python:3.12-slim     # prints "Digest: sha256:..."
#   docker build --build-arg DIGEST=sha256:... -t secor .
ARG DIGEST=

FROM python:${PYTHON}-slim${DIGEST:+@${DIGEST}} AS build
# Optional parts of setup.py, with commas: parsers, protobuf, clouds, spark, zookeeper-sasl.
ARG EXTRAS=parsers
# For the compiled parts of secor.wire and its formats; without them numpy does their work, more slowly.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY setup.py pyproject.toml README.md LICENSE ./
COPY secor ./secor
COPY config ./config
COPY systemd ./systemd
RUN pip wheel --no-cache-dir --wheel-dir /wheels ".[${EXTRAS}]" \
 && python -m venv /opt/secor \
 && /opt/secor/bin/pip install --no-cache-dir --no-index --find-links /wheels "secor[${EXTRAS}]"

FROM python:${PYTHON}-slim${DIGEST:+@${DIGEST}}
# tini is process 1: Python as process 1 would not be ended by a signal that comes before its
# handlers stand, and would leave the children of finalize.command unreaped.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends tini \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 secor \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin secor \
 && install --directory --owner=10001 --group=10001 --mode=0700 /var/cache/secor
COPY --from=build /opt/secor /opt/secor

# Open batches, a cache: give it a volume of its own where the root file system is read-only.
# Probes and Prometheus come from outside of the container; SECOR_METRICS__USERNAME and
# SECOR_METRICS__PASSWORD keep others from what is not /healthz and /readyz.
ENV PATH=/opt/secor/bin:$PATH \
    SECOR_LOCAL__DIRECTORY=/var/cache/secor \
    SECOR_LOGS__FORMAT=json \
    SECOR_METRICS__ADDRESS=0.0.0.0 \
    SECOR_METRICS__PORT=9878 \
    TMPDIR=/var/cache/secor

USER 10001:10001
WORKDIR /var/cache/secor
EXPOSE 9878
# Of the loop, not of the servers: those it waits for.  With TLS on this port, switch it off.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 \
    CMD ["/opt/secor/bin/python", "-c", "import os, urllib.request as web; web.urlopen('http://127.0.0.1:' + os.environ['SECOR_METRICS__PORT'] + '/healthz', timeout=5)"]
# Longer than the drain: docker stop waits ten seconds unless it is told (--stop-timeout 300).
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/secor/bin/secor"]
CMD ["run", "/etc/secor/secor.toml"]
