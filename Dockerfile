# The planner and its client, without a compiler, as a user without rights.
FROM docker.io/library/debian:bookworm-slim AS build
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        ca-certificates g++ cmake ninja-build \
        libgrpc-dev libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc \
        libabsl-dev libpq-dev libsqlite3-dev prometheus-cpp-dev libyaml-cpp-dev libgtest-dev libgmock-dev libbenchmark-dev \
    && rm -rf /var/lib/apt/lists/*
COPY . /source
WORKDIR /source
RUN cmake --preset gcc -B /build \
    && cmake --build /build --target hapmoed hapmoe \
    && strip /build/bin/hapmoed /build/bin/hapmoe

FROM docker.io/library/debian:bookworm-slim
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        bubblewrap libabsl20220623 libgrpc++1.51 libpq5 libprotobuf32 libsqlite3-0 \
        libprometheus-cpp-core1.0 libprometheus-cpp-pull1.0 libyaml-cpp0.7 \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o 65532 -g 65532 -m 0700 /var/lib/hapmoe
COPY --from=build /build/bin/hapmoed /build/bin/hapmoe /usr/local/bin/
USER 65532:65532
VOLUME /var/lib/hapmoe
EXPOSE 50051 9464
ENTRYPOINT ["/usr/local/bin/hapmoed"]
CMD ["--listen=0.0.0.0:50051", "--metrics_listen=0.0.0.0:9464", "--state_dir=/var/lib/hapmoe"]
