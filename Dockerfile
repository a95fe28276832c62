# docker build -t service-controller-manager:0.1.0 .
# Both images can come from elsewhere: --build-arg BUILD_IMAGE=... --build-arg FINAL_IMAGE=...

# The toolchain of Cargo.toml's rust-version, on musl: the program then needs no file of a system.
ARG BUILD_IMAGE=rust:1.95-alpine
ARG FINAL_IMAGE=scratch

FROM ${BUILD_IMAGE} AS build
# For the C code of the allocator and of the cryptography.
RUN apk add --no-cache gcc make musl-dev
WORKDIR /src
# rust-toolchain.toml stays outside: the toolchain is the image's.
COPY Cargo.toml Cargo.lock ./
COPY api api
COPY allocators allocators
COPY controllers controllers
COPY lab lab
COPY manager manager
COPY nodeproxy nodeproxy
COPY page page
COPY tests tests
COPY tls tls
RUN cargo build --profile dist --locked -p service-controller-manager --bin service-controller-manager

FROM ${FINAL_IMAGE}
COPY --from=build /src/target/dist/service-controller-manager /service-controller-manager
# A number, so that runAsNonRoot can be checked without a passwd file.
USER 65532:65532
EXPOSE 10257
ENTRYPOINT ["/service-controller-manager"]
CMD ["run"]
