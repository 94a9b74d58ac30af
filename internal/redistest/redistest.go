// Package redistest starts real Redis servers for tests: one, a Sentinel group
// or a Cluster, each on free ports and in directories of its own, and breaks
// them in the ways that networks and machines do. What is started ends with
// its test, also where that is killed.
//
// It knows servers, and nothing of what is stored in them. It needs the Debian
// packages redis-server and redis-sentinel; without them a test fails in words.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sessionproxy/sessionproxy/internal/freeport"
)

// Password of the user "tester", who may do anything on every server. The
// user "default" has none, unless an option says so.
const Password = "tester-password"

// settings are what options change: lines of a redis.conf.
type settings struct {
	conf      []string
	tls       *Certificates
	sentinels []string // lines for the Sentinels of a group
	sentinel  bool     // it is one
	port      int      // 0: a free one
	env       []string // beside the test's own
}

// An Option changes how a server is started.
type Option func(*settings)

// Conf adds lines to the server's redis.conf, such as "maxmemory 2mb".
func Conf(lines ...string) Option {
	return func(s *settings) { s.conf = append(s.conf, lines...) }
}

// RequirePass gives the user "default" a password.
func RequirePass(password string) Option { return Conf("requirepass " + password) }

// User adds an ACL user. Its rules are those of ACL SETUSER, such as
// "on >secret ~session:* +get".
func User(name, rules string) Option { return Conf("user " + name + " " + rules) }

// TLS lets the server speak TLS, and nothing else, on its port.
func TLS(c *Certificates) Option {
	return func(s *settings) { s.tls = c }
}

// Sentinels adds lines to the configuration of a group's Sentinels.
func Sentinels(lines ...string) Option {
	return func(s *settings) { s.sentinels = append(s.sentinels, lines...) }
}

// Server is one Redis that was started. Its methods fail the test on errors.
type Server struct {
	// Addr is where it listens: an address of loopback with a port that it
	// keeps through Kill and Start.
	Addr string
	// Socket is the Unix socket on which it listens too.
	Socket string

	t      testing.TB
	dir    string
	conf   settings
	client *redis.Client
	*process
}

// Single starts one server, empty, that writes each change to its disk before
// it says that it was made.
func Single(t testing.TB, options ...Option) *Server {
	t.Helper()
	return start(t, options...)
}

func start(t testing.TB, options ...Option) *Server {
	t.Helper()
	// Not t.TempDir: the path of a Unix socket has at most 107 bytes.
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &Server{t: t, dir: dir, Socket: filepath.Join(dir, "redis.sock"), process: &process{program: "redis-server"}}
	for _, o := range options {
		o(&s.conf)
	}
	if s.conf.sentinel {
		s.process.program = "redis-sentinel"
	}
	s.process.env = s.conf.env
	t.Cleanup(s.process.kill)
	s.launch()
	s.client = redis.NewClient(&redis.Options{
		Network: "unix", Addr: s.Socket, Username: "tester", Password: Password,
		DisableIdentity: true, MaxRetries: -1, ReadTimeout: 5 * time.Second,
	})
	t.Cleanup(func() { s.client.Close() })
	return s
}

// launch tries ports until the server has one: another program may take a port
// between its choice and its use.
func (s *Server) launch() {
	s.t.Helper()
	for range 10 {
		port := s.conf.port
		if port == 0 {
			port = freeport.Port(s.t)
		}
		s.Addr = fmt.Sprintf("127.0.0.1:%d", port)
		s.write(port)
		err := s.process.start(s.dir, filepath.Join(s.dir, "redis.conf"))
		if err == nil {
			err = s.ready()
		}
		if err == nil {
			s.conf.port = port
			return
		}
		if s.conf.port != 0 || !strings.Contains(s.process.log(), "Address already in use") {
			s.t.Fatalf("%v; it wrote:\n%s", err, s.process.log())
		}
	}
	s.t.Fatal("redis-server found no free port in 10 tries")
}

func (s *Server) write(port int) {
	s.t.Helper()
	lines := []string{
		"bind 127.0.0.1", fmt.Sprintf("port %d", port), "unixsocket " + s.Socket, "dir " + s.dir, "daemonize no",
		"user tester on >" + Password + " ~* &* +@all",
	}
	if !s.conf.sentinel {
		lines = append(lines, "appendonly yes", "appendfsync no", // a killed process loses nothing that the kernel has
			`save ""`, "enable-debug-command yes", "repl-diskless-sync-delay 0", "masteruser tester", "masterauth "+Password)
	}
	if c := s.conf.tls; c != nil {
		lines[1] = "port 0"
		lines = append(lines, fmt.Sprintf("tls-port %d", port),
			"tls-cert-file "+c.Cert, "tls-key-file "+c.Key, "tls-ca-cert-file "+c.CA, "tls-auth-clients "+c.clients)
	}
	lines = append(lines, s.conf.conf...)
	if err := os.WriteFile(filepath.Join(s.dir, "redis.conf"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// ready waits until the server answers on its socket.
func (s *Server) ready() error { return s.process.ready("unix", s.Socket) }

// URL is how the server's port is written in a configuration.
func (s *Server) URL() string {
	if s.conf.tls != nil {
		return "rediss://" + s.Addr
	}
	return "redis://" + s.Addr
}

// Client may do anything on this server, and reaches it by its socket, past
// every relay and every rule.
func (s *Server) Client() *redis.Client { return s.client }

// Do runs a command and returns its reply.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 10*time.Second)
	defer cancel()
	reply, err := s.client.Do(ctx, args...).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
		s.t.Fatalf("%v on %s: %v", args[0], s.Addr, err)
	}
	return reply
}

// Kill ends the server as kill -9 does. Start brings it back.
func (s *Server) Kill() { s.process.kill() }

// Start starts the server again on its port, with what it had on its disk.
func (s *Server) Start() {
	s.t.Helper()
	s.launch()
}

// Wipe empties the disk of a server that was killed.
func (s *Server) Wipe() {
	s.t.Helper()
	for _, name := range []string{"appendonlydir", "dump.rdb"} {
		if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// Freeze stops the server where it stands: the kernel takes what is sent to
// it, and nothing comes back. Thaw lets it go on.
func (s *Server) Freeze() { s.process.freeze() }

// Thaw ends Freeze.
func (s *Server) Thaw() { s.process.thaw() }

// port is the one of Addr.
func (s *Server) port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}

// addrs are the addresses of several servers, as a URL lists them.
func addrs(servers []*Server) string {
	all := make([]string, len(servers))
	for i, s := range servers {
		all[i] = s.Addr
	}
	return strings.Join(all, ",")
}

// Eventually waits until a condition holds, and fails the test where it does
// not within the time given.
func Eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
