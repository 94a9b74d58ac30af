package proxy_test

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/certs"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/loginsites"
	"github.com/sessionproxy/sessionproxy/internal/spool"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/proxy"
	logins "github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/session/embedded"
)

// inMemory is a network of one listener: no packet is on its way when nobody
// moves, so the clock of a bubble may.
type inMemory struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newInMemory() *inMemory { return &inMemory{conns: make(chan net.Conn), done: make(chan struct{})} }

func (l *inMemory) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *inMemory) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *inMemory) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (l *inMemory) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.done:
	case <-ctx.Done():
	}
	return nil, net.ErrClosed
}

// simulation is a site, proxies that share a store, and their clients, all on
// one network in memory.
type simulation struct {
	site    *loginsites.Site
	clients []*http.Client // one a proxy
}

func simulate(t *testing.T, ca *certs.Authority, o loginsites.Options, proxies int) *simulation {
	t.Helper()
	s := &simulation{site: loginsites.New(o)}
	origin := newInMemory()
	server := &http.Server{Handler: slowly(s.site)}
	go server.Serve(origin)
	t.Cleanup(func() { server.Close() })
	store, err := embedded.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	rules := withRecipe(loginRules())
	for i := range rules.Recipe { // over plain http, which costs less
		if step := &rules.Recipe[i]; step.Get != "" {
			step.Get = world.Plain.URL(step.Get)
		} else {
			step.Post = world.Plain.URL(step.Post)
		}
	}
	c := &config.Config{Undeclared: config.Tunnel, Egress: config.Egress{Mode: config.EgressOpen}, Sites: []config.Site{world.Site("shop", world.Host)}}
	pattern, err := config.ParsePattern(world.Host)
	if err != nil {
		t.Fatal(err)
	}
	c.Sites[0].Patterns, c.Sites[0].Login = []config.Pattern{pattern}, rules
	locks := new(logins.Memory)
	for range proxies {
		tokens := captcha.New(captcha.Options{Store: captcha.NewMemory()})
		t.Cleanup(tokens.Close)
		bodies, err := spool.Open(t.TempDir(), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		p, err := proxy.New(proxy.Options{
			Config: c, Store: store, Locks: locks, Certs: ca, CA: ca.PEM(), Log: slog.New(slog.DiscardHandler),
			Metrics: prometheus.NewRegistry(), Tokens: tokens, Spool: bodies,
		})
		if err != nil {
			t.Fatal(err)
		}
		p.DialBy(origin.dial)
		front := newInMemory()
		go p.Serve(front, config.Listen{Auth: config.AuthNone})
		tr := &http.Transport{
			Proxy:               http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"}),
			DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return front.dial(ctx) },
			MaxIdleConnsPerHost: 100,
		}
		s.clients = append(s.clients, &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }})
		t.Cleanup(func() {
			tr.CloseIdleConnections()
			if err := p.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	return s
}

// slowly is a network with ways of many lengths: replies come in another order
// than they were made in.
func slowly(h http.Handler) http.Handler {
	way := func() { time.Sleep(time.Duration(5+rand.IntN(150)) * time.Millisecond) }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		way()
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		way()
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		answer.Body.WriteTo(w)
	})
}
