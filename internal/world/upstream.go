package world

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

	mu    sync.Mutex // guards what follows
	ln    net.Listener
	conns map[net.Conn]bool // true: a client's
	peers map[string]bool   // its own addresses towards targets, while connected
	asked []string
	to    int // targets reached
	mute  bool
}

// NewUpstream starts an upstream that ends with the test.
func NewUpstream(t testing.TB, o UpstreamOptions) *Upstream {
	t.Helper()
	if o.Scheme == "" {
		o.Scheme = "http"
	}
	u := &Upstream{t: t, o: o, conns: map[net.Conn]bool{}, peers: map[string]bool{}}
	u.http = &http.Transport{
		DisableCompression: true, DisableKeepAlives: true,
		DialContext: func(_ context.Context, _, addr string) (net.Conn, error) { return u.reach(addr) },
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
			if u.keep(c) {
				u.wg.Go(func() {
					defer u.end(c)
					u.serve(c)
				})
			}
		}
	})
}

// keep notes a connection, unless the upstream has been killed.
func (u *Upstream) keep(c net.Conn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ln == nil {
		c.Close()
		return false
	}
	u.conns[c] = true
	return true
}

func (u *Upstream) end(c net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.peers, c.LocalAddr().String()) // before another has the port
	delete(u.conns, c)
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
	for c := range u.conns {
		c.Close()
	}
	clear(u.conns)
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
	return u.peers[peer]
}

// Open is how many clients are connected.
func (u *Upstream) Open() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for _, client := range u.conns {
		if client {
			n++
		}
	}
	return n
}

func (u *Upstream) note(what string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = append(u.asked, what)
}

func (u *Upstream) serve(c net.Conn) {
	u.mu.Lock()
	mute := u.mute
	u.mu.Unlock()
	if mute {
		_, _ = io.Copy(io.Discard, c) // until the client gives up
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
		u.serveSOCKS(c, br)
		return
	}
	for u.serveHTTP(c, br) {
	}
}

// serveHTTP serves one request, and says whether another may follow.
func (u *Upstream) serveHTTP(c net.Conn, br *bufio.Reader) bool {
	r, err := http.ReadRequest(br)
	if err != nil {
		return false
	}
	u.note(r.Method + " " + r.RequestURI)
	answer := func(status int) bool {
		resp := &http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: r}
		if status == http.StatusProxyAuthRequired {
			resp.Header.Set("Proxy-Authenticate", "Basic")
		}
		return resp.Write(c) == nil && r.Method != http.MethodConnect
	}
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(u.o.User+":"+u.o.Password))
	if u.o.User != "" && r.Header.Get("Proxy-Authorization") != want {
		return answer(http.StatusProxyAuthRequired)
	}
	if u.o.Answer != nil {
		if status := u.o.Answer(r.Host); status != 0 {
			return answer(status)
		}
	}
	if r.Method != http.MethodConnect {
		return u.forward(c, r, answer)
	}
	if _, port, _ := net.SplitHostPort(r.Host); u.o.ConnectPort != "" && port != u.o.ConnectPort {
		return answer(http.StatusForbidden)
	}
	origin, err := u.reach(r.RequestURI)
	if err != nil {
		return answer(http.StatusBadGateway)
	}
	if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err == nil {
		u.join(c, br, origin)
	}
	return false
}

// forward passes on a request in absolute form.
func (u *Upstream) forward(c net.Conn, r *http.Request, answer func(int) bool) bool {
	if !r.URL.IsAbs() {
		return answer(http.StatusBadRequest)
	}
	r.RequestURI = ""
	b, err := io.ReadAll(r.Body) // now: an answer may come before its end
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	r.Header.Del("Proxy-Authorization")
	resp, err := u.http.RoundTrip(r)
	if err != nil {
		return answer(http.StatusBadGateway)
	}
	defer resp.Body.Close()
	resp.Close = false
	return resp.Write(c) == nil
}

// serveSOCKS serves one connection by SOCKS5.
func (u *Upstream) serveSOCKS(c net.Conn, br *bufio.Reader) {
	read := func(n int) []byte {
		b := make([]byte, n)
		if _, err := io.ReadFull(br, b); err != nil {
			return nil
		}
		return b
	}
	text := func() string {
		if n := read(1); n != nil {
			return string(read(int(n[0])))
		}
		return ""
	}
	if b := read(1); b == nil || b[0] != 5 {
		return
	}
	methods := text()
	switch {
	case u.o.User == "" && strings.Contains(methods, "\x00"):
		_, _ = c.Write([]byte{5, 0})
	case u.o.User != "" && strings.Contains(methods, "\x02"):
		_, _ = c.Write([]byte{5, 2})
		read(1)
		user, password := text(), text()
		if user != u.o.User || password != u.o.Password {
			_, _ = c.Write([]byte{1, 1})
			return
		}
		_, _ = c.Write([]byte{1, 0})
	default:
		_, _ = c.Write([]byte{5, 0xff})
		return
	}
	head := read(4)
	if head == nil {
		return
	}
	var host string
	switch head[3] {
	case 1:
		host = net.IP(read(4)).String()
	case 3:
		host = text()
	case 4:
		host = net.IP(read(16)).String()
	}
	p := read(2)
	if p == nil {
		return
	}
	target := net.JoinHostPort(host, strconv.Itoa(int(p[0])<<8|int(p[1])))
	u.note("SOCKS " + target)
	reply := func(code int) { _, _ = c.Write([]byte{5, byte(code), 0, 1, 0, 0, 0, 0, 0, 0}) }
	if u.o.Answer != nil {
		if code := u.o.Answer(target); code != 0 {
			reply(code)
			return
		}
	}
	origin, err := u.reach(target)
	if err != nil {
		reply(4)
		return
	}
	reply(0)
	u.join(c, br, origin)
}

// reach connects to a target.
func (u *Upstream) reach(addr string) (net.Conn, error) {
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
	u.conns[c] = false
	u.to++
	u.peers[c.LocalAddr().String()] = true
	return &reached{c.(*net.TCPConn), u}, nil
}

// reached is a connection to a target, which its upstream forgets with it.
type reached struct {
	*net.TCPConn
	u *Upstream
}

func (r *reached) Close() error {
	r.u.end(r.TCPConn)
	return nil
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
