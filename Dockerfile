# A static binary, no shell, nobody's user.
#
#   docker build -t sessionproxy .       builds the binary inside, too
#   make image                           takes the one that `make build` made, by buildah, without pulling anything
#
# Run: docker run -v sessionproxy:/state -v ./sessionproxy.yaml:/etc/sessionproxy.yaml sessionproxy
FROM golang:1.26.10 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=""
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /root/sessionproxy ./cmd/sessionproxy \
 && mkdir -p -m 0700 /root/state

FROM scratch
# Origins are verified against these.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /root/sessionproxy /sessionproxy
COPY --from=build --chown=65532:65532 /root/state /state
USER 65532:65532
VOLUME /state
# The proxy, and health and metrics. The admin API stays on the container's loopback.
EXPOSE 8080 8082
ENTRYPOINT ["/sessionproxy"]
CMD ["serve", "--config", "/etc/sessionproxy.yaml", "--state", "/state"]
