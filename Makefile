# Everything here is also one plain command; .ci/test is what CI runs.

.PHONY: build demo test check lint bench bench-peers bench-scale bench-gate fuzz soak chaos vulns image release release-check

build: ## bin/sessionproxy: static, stamped
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/sessionproxy ./cmd/sessionproxy

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)

demo: ## a shop, the proxy, and lines to try
	go run ./cmd/sessionproxy demo

test: ## all tests; installs what they need
	.ci/test

check: ## the fast half: formatting, vet, and tests of one package tree
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go vet ./...
	go test -race ./captcha/... ./certs/... ./cmd/... ./internal/... ./proxy/... ./session/...

lint: ## golangci-lint at the version that .golangci.yml was written for
	go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 run ./...

bench: ## the budgets: paired ratios against goproxy's own interception, then micro-benchmarks
	go run ./internal/bench
	go test -run '^$$' -bench . -benchmem ./session/... ./certs/ ./proxy ./proxy/upstream ./proxy/admin

FUZZTIME ?= 10m
fuzz: ## every fuzz target, FUZZTIME each
	.ci/fuzz $(FUZZTIME)

bench-peers: ## the table of docs/performance.md: mitmproxy, Squid and nginx beside, from Debian's packages
	go run ./internal/bench -peers -record docs/performance.json -report docs/performance.md

bench-scale: ## the curves of docs/scaling.md
	go run ./internal/bench -scale -rounds 5 -seconds 3 -record docs/performance.json -report docs/scaling.md

bench-gate: ## fails where the cost has grown by more than a tenth against docs/performance.json
	go run ./internal/bench -peers -rows keep-alive,new-connection,h2 -proxies sessionproxy,tuned,tuned-h2 -gate docs/performance.json

vulns: ## known vulnerabilities in what the binary is made of, by govulncheck
	.ci/vulns

FOR ?= 2m
soak: ## many clients on three proxies and a Redis with Sentinels, FOR=20m
	go test ./internal/soak -v -count=1 -timeout 0 -for $(FOR) -clients 2000 -pause 10s

chaos: ## the same while one part after the other breaks
	go test ./internal/soak -v -count=1 -timeout 0 -for $(FOR) -clients 500 -chaos

image: ## a static image without a shell, by buildah, from a binary built here
	mkdir -p bin/image/etc/ssl/certs bin/image/root/state
	cp /etc/ssl/certs/ca-certificates.crt bin/image/etc/ssl/certs/
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/image/root/ ./cmd/sessionproxy
	buildah build --isolation chroot --build-context build=bin/image -t sessionproxy .

release: ## dist/: archives of a tagged commit with manual pages and completions, SBOMs, checksums
	deploy/release.sh dist

release-check: ## the release, made twice from fresh clones, has the same bytes
	deploy/release-check.sh
