module github.com/sessionproxy/sessionproxy

go 1.26.0

require (
	github.com/elazarl/goproxy v1.9.4 // the engine: CONNECT dispatch and the hook chain; pinned, 1.9.3's leaf keys can be guessed
	github.com/goccy/go-yaml v1.19.2 // strict YAML whose errors know line and column
	github.com/prometheus/client_golang v1.25.0 // metrics
	github.com/rogpeppe/go-internal v1.16.0 // testscript: the command line's tests are scripts
	github.com/spf13/cobra v1.10.2 // commands, completions, man pages
	go.etcd.io/bbolt v1.5.0 // the embedded store's file: one process, durable commits
	go.uber.org/goleak v1.3.0 // tests: no goroutine outlives its owner
	golang.org/x/net v0.62.0 // public suffixes, A-labels, HTTP/2 frames in tests
	golang.org/x/sync v0.25.0 // singleflight: one signer a host
	pgregory.net/rapid v1.3.0 // tests: properties over random histories
)
