# The image by a container engine: docker build -t evenkeel . (make image needs none, and gives the same bytes everywhere).
FROM --platform=$BUILDPLATFORM golang:1.26.5@sha256:3aff6657219a4d9c14e27fb1d8976c49c29fddb70ba835014f477e1c70636647 AS build
ARG TARGETARCH
WORKDIR /source
COPY . .
RUN CGO_ENABLED=0 GOARCH=$TARGETARCH make build
RUN printf 'root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n' >/passwd && \
    printf 'root:x:0:\nnonroot:x:65532:\n' >/group

FROM scratch
LABEL org.opencontainers.image.title="evenkeel" \
      org.opencontainers.image.source="https://github.com/evenkeel/evenkeel" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /passwd /group /etc/
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /source/bin/evenkeel /evenkeel
ENV PATH=/
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/evenkeel"]
