//go:build linux

package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/elazarl/goproxy"
	"github.com/sessionproxy/sessionproxy/internal/freeport"
)

// The identity that clients give to every proxy. Yardsticks do not ask.
const clientName, password = "bench", "correct horse"

// A bed is what one run of the bench stands on.
type bed struct {
	dir      string // all files of the run
	cores    cores
	origin   net.Listener
	upstream net.Listener   // that sessionproxy leaves by
	roots    *x509.CertPool // what clients trust
	redis    *redisServer   // nil where no proxy needs one

	program, base string // sessionproxy, and the build to compare it with
	profile       string // where sessionproxy writes its profile; "" nowhere
	hosts         int    // that clients may ask for besides the one
	filled        int    // sessions in Redis, see fill
}

// makeBed makes the keys, starts the origin and, if asked for, builds
// sessionproxy. Whoever calls it closes the bed, also after an error.
func makeBed(ctx context.Context, opts options) (b *bed, err error) {
	b = new(bed)
	if b.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return b, err
	}
	if b.cores, err = splitCores(); err != nil {
		return b, err
	}
	ca, err := makeCA("bench proxies", b.file("ca.pem"), b.file("ca.key"))
	if err != nil {
		return b, fmt.Errorf("make the proxies' CA: %w", err)
	}
	b.roots = x509.NewCertPool()
	b.roots.AddCert(ca.Leaf)
	b.roots.AppendCertsFromPEM(goproxy.CA_CERT) // the stock one shows what everybody can sign

	originCA, err := makeCA("bench origin", b.file("origin.pem"), b.file("origin.key"))
	if err != nil {
		return b, fmt.Errorf("make the origin's CA: %w", err)
	}
	leaf, err := makeLeaf(originCA, originHost)
	if err != nil {
		return b, fmt.Errorf("make the origin's certificate: %w", err)
	}
	if b.origin, err = startOrigin(leaf); err != nil {
		return b, err
	}

	if b.upstream, err = startUpstream(); err != nil {
		return b, err
	}

	if slices.Contains(opts.proxies, sessionproxy) || slices.Contains(opts.proxies, base) {
		if b.redis, err = startRedis(ctx, b.dir); err != nil {
			return b, err
		}
	}
	if slices.Contains(opts.proxies, nginx) {
		if err := writeLeaf(ca, originHost, b.file("site.pem"), b.file("site.key")); err != nil {
			return b, fmt.Errorf("make nginx's certificate: %w", err)
		}
	}
	for _, r := range opts.rows {
		b.hosts = max(b.hosts, r.hosts)
	}
	b.program, b.base, b.profile = opts.program, opts.base, opts.profile
	if b.program == "" && slices.ContainsFunc(opts.proxies, ours) {
		b.program = b.file(sessionproxy)
		build := exec.CommandContext(ctx, "go", "build", "-o", b.program, "github.com/sessionproxy/sessionproxy/cmd/sessionproxy")
		if b.profile != "" {
			build.Args = slices.Insert(build.Args, 2, "-tags", "profile")
		}
		if out, err := build.CombinedOutput(); err != nil {
			return b, fmt.Errorf("build sessionproxy: %w\n%s", err, out)
		}
	}
	return b, nil
}

func (b *bed) close() error {
	for _, ln := range []net.Listener{b.origin, b.upstream} {
		if ln != nil {
			ln.Close()
		}
	}
	if b.redis != nil {
		b.redis.stop()
	}
	return os.RemoveAll(b.dir)
}

func (b *bed) file(name string) string { return filepath.Join(b.dir, name) }

// A proxy is one running process.
type proxy struct {
	name    string
	addr    string
	cookies int // it attaches to each request
	roots   *x509.CertPool

	hosts atomic.Int64 // that clients have asked for, of many
	port  string       // of the origin

	cmd     *exec.Cmd
	log     string // file of all it writes
	profile string // file of its CPU profile; "" none
	cancel  context.CancelFunc
	exited  chan struct{} // closed once err is set
	err     error
}

// start runs the named proxy, with env on top of the environment, until it
// serves: sessionproxy has its session then.
func (b *bed) start(ctx context.Context, name string, env ...string) (*proxy, error) {
	dir, err := os.MkdirTemp(b.dir, name+"-")
	if err != nil {
		return nil, err
	}
	if name == direct {
		return b.direct()
	}
	var addrs [3]string
	for i := range addrs {
		port, err := freeport.Take()
		if err != nil {
			return nil, err
		}
		addrs[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	p := &proxy{name: name, addr: addrs[0], roots: b.roots, exited: make(chan struct{})}
	if _, p.port, err = net.SplitHostPort(b.origin.Addr().String()); err != nil {
		return nil, err
	}

	var args []string
	program := b.program
	switch {
	case slices.Contains(peerNames, name):
		peer, err := b.peer(name, dir, p.addr)
		if err != nil {
			return nil, err
		}
		program, args = peer.Args[0], peer.Args[1:]
	case ours(name):
		if name == base {
			program = b.base
		} else if b.profile != "" {
			p.profile = b.profile
			env = append(env, "CPUPROFILE="+b.profile)
		}
		config := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(config, []byte(b.config(name, dir, addrs[:])), 0o600); err != nil {
			return nil, err
		}
		args = []string{"serve", "--config", config}
	default:
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
		args = []string{yardstickRole, name, p.addr, b.origin.Addr().String(),
			b.file("origin.pem"), b.file("ca.pem"), b.file("ca.key")}
	}

	// A file, as in production: a pipe would make this process work for the proxy's log.
	p.log = filepath.Join(dir, "log")
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	ctx, p.cancel = context.WithCancel(ctx)
	p.cmd = exec.CommandContext(ctx, program, args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 5 * time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // also if this process is killed
	if err := b.cores.start(p.cmd); err != nil {
		p.cancel()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.exited)
		p.err = p.cmd.Wait()
	}()

	if err := p.ready(ctx); err != nil {
		p.stop()
		return nil, fmt.Errorf("start %s: %w\n%s", name, err, p.lastWords())
	}
	return p, nil
}

// direct is what clients have without a proxy: the origin, in this process.
func (b *bed) direct() (*proxy, error) {
	roots, err := readRoots(b.file("origin.pem"))
	if err != nil {
		return nil, err
	}
	p := &proxy{name: direct, addr: b.origin.Addr().String(), roots: roots, cancel: func() {}, exited: make(chan struct{})}
	close(p.exited)
	return p, nil
}

// ours says whether the named proxy is sessionproxy.
func ours(name string) bool { return name == sessionproxy || name == embedded || name == base }

// config is what an operator would write, and no tuning.
func (b *bed) config(name, dir string, addrs []string) string {
	store, upstream := "embedded", "direct"
	if name != embedded {
		store, upstream = "redis://"+b.redis.addr, "eu"
	}
	resolve := []string{fmt.Sprintf("%q: %q", originHost, b.origin.Addr())}
	for n := range b.hosts {
		resolve = append(resolve, fmt.Sprintf("%q: %q", manyHost(n+1), b.origin.Addr()))
	}
	return fmt.Sprintf(`listen: [{addr: %q, auth: ask}]
admin: %q
ops: %q
state: %q
store: %q
ca: {cert: %q, key: %q}
clients: [{name: %q, password: %q}]
upstream: %s
upstreams: {eu: {proxies: ["http://%s"], wait: 45s}} # a fresh Redis gives no lease for 30 s
sites:
  - name: bench
    hosts: [%q, "*.%s"]
    origin: {ca: %q, resolve: {%s}}
`, addrs[0], addrs[1], addrs[2], filepath.Join(dir, "state"), store, b.file("ca.pem"), b.file("ca.key"),
		clientName, password, upstream, b.upstream.Addr(), originHost, originHost, b.file("origin.pem"), strings.Join(resolve, ", "))
}

// authority is what clients ask the proxy to connect to; "" where they do not
// ask. Those that can't be told where a name leads get the origin's own port.
func (p *proxy) authority(host string) string {
	switch p.name {
	case nginx, direct:
		return ""
	case squid:
		return net.JoinHostPort(host, p.port)
	case mitmproxy:
		return net.JoinHostPort("127.0.0.1", p.port) // the name comes with TLS
	}
	return net.JoinHostPort(host, "443")
}

// host is the Host of requests.
func (p *proxy) host(name string) string {
	switch p.name {
	case squid:
		return net.JoinHostPort(name, p.port)
	case mitmproxy: // it would look the name up in HTTP/2
		return p.authority(name)
	}
	return name
}

// ready waits until the proxy accepts connections, then logs in where there are sessions.
func (p *proxy) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", p.addr)
		if err == nil {
			conn.Close()
			break
		}
		select {
		case <-p.exited:
			return fmt.Errorf("process ended: %w", p.err)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	switch {
	case p.name == nginx:
		p.cookies = sessionCookies
		return nil
	case !ours(p.name) && p.name != mitmproxy:
		return nil
	}
	if err := p.fetch("/login"); err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	p.cookies = sessionCookies
	if err := p.fetch(p.target("/1k")); err != nil {
		return fmt.Errorf("use the session: %w", err)
	}
	return nil
}

// fetch makes one request on a connection of its own.
func (p *proxy) fetch(target string) error {
	c, err := dialH1(p, originHost, target, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.get()
}

// target adds to path what the origin must see.
func (p *proxy) target(path string) string {
	return fmt.Sprintf("%s?cookies=%d", path, p.cookies)
}

func (p *proxy) stop() {
	if p.profile != "" {
		_ = p.cmd.Process.Signal(syscall.SIGUSR1) // it may have ended
		for range 500 {                           // a profile is written within a second
			if _, err := os.Stat(p.profile); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	p.cancel()
	<-p.exited
}

// lastWords is the end of the proxy's log, for an error that it may explain.
func (p *proxy) lastWords() []byte {
	log, _ := os.ReadFile(p.log)
	return log[max(0, len(log)-2000):]
}
