# The egress image for machines that reach a registry: docker build -f sandbox/egress/egress.Dockerfile sandbox/egress
ARG BASE=debian:bookworm-slim
FROM $BASE
LABEL threegate.kind=egress
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends squid socat python3 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
COPY start-proxy start-relay /usr/local/bin/
