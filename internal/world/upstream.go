package world

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// UpstreamOptions say what is particular about an upstream.
type UpstreamOptions struct {
	Scheme         string // http, https or socks5; "" http
	User, Password string // that it wants; "" none
	// From is an address of loopback that is its own: it listens there, and
	// targets see it come from there. "" is the one that all have.
	From string
	// Names are the hosts that it knows, and where they are: it looks up no
	// others.
	Names map[string]string
	// Answer, where it returns not 0, is its answer to a target in place of a
	// connection: a status, or a reply code of SOCKS5.
	Answer func(target string) int
	// ConnectPort, where not "", is the only one that CONNECT may reach.
	ConnectPort string
}

// Upstream is a proxy that requests can leave by: it speaks CONNECT and
// absolute form, or SOCKS5, and writes down what it is asked for.
type Upstream struct {
	URL    string // with its credentials
	Addr   string
	CAFile string // that an https one is verified against

	t    testing.TB
	o    UpstreamOptions
	tls  *tls.Config
	http *http.Transport
	wg   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	ln      net.Listener
	clients map[net.Conn]*Visit
	targets map[net.Conn]bool
	peers   map[string]*Visit // by its own address towards the target, while connected
	log     []*Visit
	asked   []string
	to      int // targets reached
	mute    bool
	garbage bool
}

// NewUpstream starts an upstream that ends with the test.
func NewUpstream(t testing.TB, o UpstreamOptions) *Upstream {
	t.Helper()
	if o.Scheme == "" {
		o.Scheme = "http"
	}
	u := &Upstream{t: t, o: o, clients: map[net.Conn]*Visit{}, targets: map[net.Conn]bool{}, peers: map[string]*Visit{}}
	u.http = &http.Transport{
		DisableCompression: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			v, _ := ctx.Value(visitKey{}).(*Visit)
			return u.reach(v, addr)
		},
	}
	if o.Scheme == "https" {
		dir := t.TempDir()
		u.tls, u.CAFile = serverTLS(openCA(t, dir), "http/1.1"), filepath.Join(dir, "ca.pem")
	}
	u.listen(net.JoinHostPort(cmp.Or(o.From, "127.0.0.1"), "0"))
	u.Addr = u.ln.Addr().String()
	at := url.URL{Scheme: o.Scheme, Host: u.Addr}
	if o.User != "" {
		at.User = url.UserPassword(o.User, o.Password)
	}
	u.URL = at.String()
	t.Cleanup(u.Kill)
	return u
}

// Pool is a pool of the upstreams with the configuration's defaults.
func Pool(upstreams ...*Upstream) config.Pool {
	p := config.Pool{Capacity: 1, Idle: 30 * time.Second, Wait: patience}
	for _, u := range upstreams {
		parsed, err := upstream.Parse(u.URL)
		if err != nil {
			u.t.Fatal(err)
		}
		p.Proxies = append(p.Proxies, config.Proxy{Upstream: parsed})
		if u.CAFile != "" {
			p.CA = u.CAFile
		}
	}
	return p
}

func (u *Upstream) listen(addr string) {
	ln := listen(u.t, addr)
	u.mu.Lock()
	u.ln = ln
	u.mu.Unlock()
	u.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			if v := u.keep(c); v != nil {
				u.wg.Go(func() {
					defer u.leave(c)
					u.serve(v, c)
				})
			}
		}
	})
}

// keep notes a client's connection, unless the upstream has been killed.
func (u *Upstream) keep(c net.Conn) *Visit {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ln == nil {
		c.Close()
		return nil
	}
	v := &Visit{Number: len(u.log), Began: time.Now()}
	for other, visit := range u.clients {
		if established(other) {
			v.Beside = append(v.Beside, visit.Number)
		}
	}
	u.clients[c] = v
	u.log = append(u.log, v)
	return v
}

// leave ends a client's connection.
func (u *Upstream) leave(c net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.clients, c)
	c.Close()
}

// Kill ends the upstream in the middle of whatever it does.
func (u *Upstream) Kill() {
	u.mu.Lock()
	// The port first, as the kernel does it to a process: whoever sees his
	// connection end finds the port closed.
	if u.ln != nil {
		u.ln.Close()
		u.ln = nil
	}
	clear(u.peers)
	for c := range u.clients {
		c.Close()
	}
	for c := range u.targets {
		c.Close()
	}
	clear(u.clients)
	clear(u.targets)
	u.mu.Unlock()
	u.wg.Wait()
}

// Restart has a killed upstream serve again.
func (u *Upstream) Restart() { u.listen(u.Addr) }

// Mute has the upstream accept connections and say nothing on them.
func (u *Upstream) Mute(mute bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mute = mute
}

// Garble has the upstream answer each connection with what is no HTTP.
func (u *Upstream) Garble(garbage bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.garbage = garbage
}

// Asked is what the upstream was asked for: "CONNECT HOST:PORT", "GET URL" or
// "SOCKS HOST:PORT".
func (u *Upstream) Asked() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.asked)
}

// Reached is how many connections to targets it has opened.
func (u *Upstream) Reached() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.to
}

// Has says whether the upstream has a connection that a target sees come from
// peer.
func (u *Upstream) Has(peer string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.peers[peer] != nil
}

// Open is how many clients are connected.
func (u *Upstream) Open() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.clients)
}

func (u *Upstream) note(what string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = append(u.asked, what)
}

func (u *Upstream) serve(v *Visit, c net.Conn) {
	u.mu.Lock()
	mute, garbage := u.mute, u.garbage
	u.mu.Unlock()
	if mute {
		_, _ = io.Copy(io.Discard, c) // until the client gives up
		return
	}
	if garbage {
		_, _ = c.Read(make([]byte, 1024)) // an answer before the question is none
		_, _ = io.WriteString(c, "\x00\x15\xff no HTTP of any version\r\n\r\n")
		return
	}
	if u.tls != nil {
		tc := tls.Server(c, u.tls)
		if tc.HandshakeContext(u.t.Context()) != nil {
			return
		}
		c = tc
	}
	br := bufio.NewReader(c)
	if u.o.Scheme == "socks5" {
		u.serveSOCKS(v, c, br)
		return
	}
	for u.serveHTTP(v, c, br) {
	}
}

// reach connects to a target, for a client's connection.
func (u *Upstream) reach(v *Visit, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if to, ok := u.o.Names[addr]; ok {
		addr = to
	} else if net.ParseIP(host) == nil {
		return nil, errors.New("no such host")
	}
	d := net.Dialer{Timeout: patience}
	if u.o.From != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(u.o.From)}
	}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ln == nil {
		c.Close()
		return nil, net.ErrClosed
	}
	tcp := c.(*net.TCPConn)
	u.targets[tcp] = true
	u.to++
	u.peers[c.LocalAddr().String()] = v
	return &reached{tcp, u}, nil
}

// reached is a connection to a target, which its upstream forgets with it.
type reached struct {
	*net.TCPConn
	u *Upstream
}

func (r *reached) Close() error {
	r.u.mu.Lock()
	defer r.u.mu.Unlock()
	delete(r.u.peers, r.LocalAddr().String()) // before another has the port
	delete(r.u.targets, r.TCPConn)
	return r.TCPConn.Close()
}

// join copies both ways until both have ended.
func (u *Upstream) join(c net.Conn, br *bufio.Reader, origin net.Conn) {
	defer origin.Close()
	var wg sync.WaitGroup
	one := func(dst net.Conn, src io.Reader) {
		if _, err := io.Copy(dst, src); err != nil {
			c.Close()
			origin.Close()
		}
		if h, ok := dst.(interface{ CloseWrite() error }); ok {
			_ = h.CloseWrite() // or it is closed
		}
	}
	wg.Go(func() { one(origin, br) })
	wg.Go(func() { one(c, origin) })
	wg.Wait()
}
