# The ERA image for machines that reach a registry: docker build -f sandbox/era.Dockerfile sandbox
# The same content as sandbox/bootstrap makes: no compiler, no set-user-id program, nothing that starts by itself.
# Only the label with the list of programs is missing: ThreeGate then cannot say before an approval what the image lacks.
FROM debian:bookworm-slim
LABEL threegate.kind=era
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 git ca-certificates curl \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && ln -sf python3 /usr/bin/python \
 && mkdir -p /usr/local/libexec /in /out \
 && install -m 0711 /usr/bin/timeout /usr/local/libexec/threegate-keeper \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
