# The ERA image for machines that reach a registry: docker build -f sandbox/era.Dockerfile sandbox
# The same content as sandbox/bootstrap makes, which builds it where the engine has the base image: no compiler, no set-user-id program, nothing that starts by itself.
# Only the labels with the lists of programs and modules are missing: ThreeGate then cannot say before an approval what the image lacks.
ARG BASE=debian:bookworm-slim
FROM $BASE
LABEL threegate.kind=era
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 git ca-certificates curl \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && ln -sf python3 /usr/bin/python \
 && mkdir -p /in /out \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
