module github.com/sessionproxy/sessionproxy

go 1.26.0

require (
	github.com/andybalholm/brotli v1.3.0 // reads pages that are packed so, to see whether they show a login form
	github.com/andybalholm/cascadia v1.3.5 // CSS selectors: what a login recipe takes from a page
	github.com/caddyserver/certmagic v0.25.6 // certificates for the proxy's own names: ACME, renewal, challenges that proxies share
	github.com/elazarl/goproxy v1.9.4 // the engine: CONNECT dispatch and the hook chain; pinned, 1.9.3's leaf keys can be guessed
	github.com/goccy/go-yaml v1.19.2 // strict YAML whose errors know line and column
	github.com/golang-jwt/jwt/v5 v5.3.1 // access tokens: signed, and never by what they say themselves
	github.com/klauspost/compress v1.20.4 // the same for zstd
	github.com/prometheus/client_golang v1.25.0 // metrics
	github.com/prometheus/client_model v0.6.3 // the form in which metrics are read back, for the dashboard
	github.com/redis/go-redis/v9 v9.23.0 // Redis: single, Sentinel and Cluster, scripts, and the pushes of client-side tracking
	github.com/rogpeppe/go-internal v1.16.0 // testscript: the command line's tests are scripts
	github.com/smallstep/truststore v0.13.0 // "ca install": the trust store of each operating system
	github.com/spf13/cobra v1.10.2 // commands, completions, man pages
	github.com/spf13/pflag v1.0.10 // the flags of those: which one is wrong, and how
	go.etcd.io/bbolt v1.5.0 // the embedded store's file: one process, durable commits
	go.uber.org/goleak v1.3.0 // tests: no goroutine outlives its owner
	go.uber.org/zap v1.28.0 // certmagic logs to it, and we from it to slog
	golang.org/x/crypto v0.58.0 // argon2id and bcrypt: hashes of passwords
	golang.org/x/net v0.62.0 // public suffixes, A-labels, HTTP/2 frames in tests
	golang.org/x/sync v0.25.0 // singleflight: one signer a host
	golang.org/x/sys v0.49.0
	golang.org/x/term v0.47.0 // is it a terminal: redrawing is for people, and passwords are typed unseen
	pgregory.net/rapid v1.3.0 // tests: properties over random histories
	software.sslmate.com/src/go-pkcs12 v0.7.4 // trust stores that a JVM can be pointed at
)

require github.com/prometheus/common v0.72.0

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/caddyserver/zerossl v0.1.6 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/cpuguy83/go-md2man/v2 v2.0.6 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/kylelemons/godebug v1.1.0 // indirect
	github.com/libdns/libdns v1.1.1 // indirect
	github.com/mholt/acmez/v3 v3.1.7 // indirect
	github.com/miekg/dns v1.1.73 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/russross/blackfriday/v2 v2.1.0 // indirect
	github.com/zeebo/blake3 v0.2.4 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap/exp v0.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	howett.net/plist v1.0.0 // indirect
)
