# Build:  docker build -t mortarmq .
# Run:    docker run -p 127.0.0.1:7188:7188 -v mortarmq:/data -e MORTARMQ_ALLOW_ANONYMOUS=true mortarmq
#
# Inside a container loopback is reachable by nobody, so the broker listens on every interface for clients. It then insists on knowing who may
# connect: give MORTARMQ_AUTH_TOKEN_SHA256 (digests from `mortarmq hash-token`), or MORTARMQ_ALLOW_ANONYMOUS=true where only
# trusted machines reach the port. Admin HTTP has no authentication and stays on the container's loopback; to scrape /metrics from
# outside, set MORTARMQ_LISTEN_ADMIN=0.0.0.0:7190 and publish 7190 to your monitoring only.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /out/mortarmq . && mkdir -p /out/data

FROM scratch
COPY --from=build /out/mortarmq /mortarmq
# A volume made from this folder belongs to the user below.
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
ENV MORTARMQ_DATA_DIR=/data \
    MORTARMQ_LISTEN_CLIENT=0.0.0.0:7188
VOLUME /data
EXPOSE 7188 7190
# The broker drains at SIGTERM; what it has answered is on disk either way.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/mortarmq"]
CMD ["serve"]
