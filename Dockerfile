# The planner and its client, without a compiler, as a user without rights. deploy/image.sh builds and tries it without
# a daemon; any other builder will do:
#
#   docker build --build-arg COMMIT=$(git rev-parse --short=12 HEAD) --tag hapmoe .
#
# BASE is any image of Debian 12 with apt. Nothing is written outside of /var/lib/hapmoe, so that the root file system
# may be read-only.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        ca-certificates g++ cmake ninja-build \
        libgrpc-dev libgrpc++-dev libprotobuf-dev libssl-dev protobuf-compiler protobuf-compiler-grpc \
        libabsl-dev libpq-dev libsqlite3-dev prometheus-cpp-dev libyaml-cpp-dev libgtest-dev libgmock-dev libbenchmark-dev \
    && rm -rf /var/lib/apt/lists/*
COPY . /source
WORKDIR /source
ARG COMMIT=
ARG JOBS=
RUN cmake --preset gcc -B /build -DHAPMOE_COMMIT="${COMMIT}" \
    && cmake --build /build --parallel ${JOBS} --target hapmoed hapmoe \
    && strip /build/bin/hapmoed /build/bin/hapmoe
# What the second stage installs is read off the programs: the packages of the libraries that they name themselves.
RUN objdump --private-headers /build/bin/hapmoed /build/bin/hapmoe \
        | awk -v folder="$(gcc -print-multiarch)" '$1 == "NEEDED" { print "*/" folder "/" $2 }' | sort -u \
        | xargs dpkg-query --search >/build/libraries \
    && cut --delimiter=: --fields=1 /build/libraries | sort -u >/build/packages

FROM ${BASE}
COPY --from=build /build/packages /tmp/packages
# bubblewrap: the client runs scripts in it, where the container permits that.
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive xargs apt-get install -y --no-install-recommends bubblewrap </tmp/packages \
    && rm -rf /var/lib/apt/lists/* /tmp/packages \
    && install -d -o 65532 -g 65532 -m 0700 /var/lib/hapmoe
COPY --from=build /build/bin/hapmoed /build/bin/hapmoe /usr/local/bin/
USER 65532:65532
VOLUME /var/lib/hapmoe
EXPOSE 50051 9464
# Kubernetes asks the gRPC health service instead.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["hapmoe", "info", "--deadline", "2"]
ENTRYPOINT ["/usr/local/bin/hapmoed"]
CMD ["--listen=0.0.0.0:50051", "--metrics_listen=0.0.0.0:9464", "--state_dir=/var/lib/hapmoe"]
