# Image that serves: docker build -t nightingale . ; for NVIDIA GPUs: docker build --target cuda -t nightingale:cuda .
# Only the build needs the network. docs/deployment.md says how to run it.
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS python
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log

# The compiler stays in the stages that build.
FROM python AS tools
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ python3-dev python3-pip \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv --without-pip /opt/nightingale
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source

# Packages first: a change of code does not install them again.
FROM tools AS cpu-packages
COPY configs/lock/runtime.txt configs/lock/
RUN python3 -m pip --python /opt/nightingale/bin/python install --require-hashes -r configs/lock/runtime.txt

FROM tools AS cuda-packages
COPY configs/lock/extra-cuda.txt configs/lock/
RUN python3 -m pip --python /opt/nightingale/bin/python install --require-hashes -r configs/lock/extra-cuda.txt

FROM cpu-packages AS wheel
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY app app
COPY models models
RUN /opt/nightingale/bin/python -m build --no-isolation --wheel --outdir /wheel

# The kernels lie beside the packages: root owns both, and the server trusts both.
FROM cpu-packages AS cpu-build
COPY --from=wheel /wheel /wheel
RUN python3 -m pip --python /opt/nightingale/bin/python install --no-deps /wheel/*.whl \
    && XDG_CACHE_HOME=/opt/nightingale/share /opt/nightingale/bin/python -m models.native.build \
    && chmod -R a+rX /opt/nightingale/share

# MLX compiles for the GPU that it finds, at the first start.
FROM cuda-packages AS cuda-build
COPY --from=wheel /wheel /wheel
RUN python3 -m pip --python /opt/nightingale/bin/python install --no-deps /wheel/*.whl

FROM python AS server
RUN groupadd --gid 10001 nightingale \
    && useradd --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin nightingale \
    && install -d -o nightingale -g nightingale -m 750 /data
# Models, voices, and what is compiled on the machine are in /data. Without a writable /tmp, uploads are spooled there, too.
ENV PATH=/opt/nightingale/bin:$PATH LANG=C.UTF-8 HOME=/data XDG_CACHE_HOME=/data/cache NIGHTINGALE_DATA_DIR=/data \
    HOST=0.0.0.0 PORT=8000
LABEL org.opencontainers.image.title="Nightingale" \
    org.opencontainers.image.description="Low-latency, local speech and translation server" \
    org.opencontainers.image.licenses="Apache-2.0"
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
# A first start on a GPU compiles for minutes.
HEALTHCHECK --interval=15s --timeout=5s --start-period=300s CMD ["/opt/nightingale/bin/python", "-I", "-c", "import http.client, os, sys; server = http.client.HTTPConnection('127.0.0.1', int(os.environ['PORT']), timeout=4); server.request('GET', '/readyz'); sys.exit(server.getresponse().status != 200)"]
ENTRYPOINT ["/opt/nightingale/bin/nightingale"]
CMD ["serve"]

FROM server AS cuda
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY --from=cuda-build /opt/nightingale /opt/nightingale

# The last stage is what a build without --target makes.
FROM server AS cpu
COPY --from=cpu-build /opt/nightingale /opt/nightingale
