# A static binary, no shell, nobody's user. Build: docker build -t sessionproxy .
# Run:   docker run -v sessionproxy:/state -v ./sessionproxy.yaml:/etc/sessionproxy.yaml sessionproxy
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=""
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /sessionproxy ./cmd/sessionproxy \
 && mkdir -m 0700 /state

FROM scratch
# Origins are verified against these.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /sessionproxy /sessionproxy
COPY --from=build --chown=65532:65532 /state /state
USER 65532:65532
VOLUME /state
# The proxy, and health and metrics. The admin API stays on the container's loopback.
EXPOSE 8080 8082
ENTRYPOINT ["/sessionproxy"]
CMD ["serve", "--config", "/etc/sessionproxy.yaml", "--state", "/state"]
