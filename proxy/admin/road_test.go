package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy"
	"github.com/sessionproxy/sessionproxy/proxy/trace"
	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/embedded"
)

// value is in the value of each cookie that the tests set.
const value = "THEVALUE"

// road is the API of a proxy that is there: its store, its rules and its log.
type road struct {
	http.Handler
	store  session.Store
	log    bytes.Buffer
	trace  *trace.Log
	routes []route
}

// newRoad declares the sites shop, of shop.test and all below it but
// bank.shop.test, and bank, of the latter.
func newRoad(t *testing.T, change ...func(*Options)) *road {
	t.Helper()
	r := new(road)
	log := slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	shop, bank := site(t, "shop", "shop.test", "*.shop.test", "shop.test"), site(t, "the/bank", "bank.shop.test", "bank.shop.test")
	shop.Cookies = config.Cookies{Share: []string{"*"}, Private: []string{"mine"}, Inject: true, TTL: time.Hour}
	bank.Cookies = config.Cookies{Share: []string{"sid"}, Inject: true}
	shop.Captcha = []config.Captcha{widget("login")}
	c := &config.Config{
		Sites:   []config.Site{shop, bank},
		Clients: []config.Client{{Name: "crawler", Sites: []string{"shop"}, Sessions: []string{"default"}}},
	}
	store, err := embedded.Open(filepath.Join(t.TempDir(), "sessions.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	r.store = store
	p, err := proxy.New(proxy.Options{Config: c, Store: store, Log: log, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Shutdown(context.Background()); err != nil {
			t.Errorf("shut the proxy down: %v", err)
		}
	})
	o := testOptions(t)
	o.Store, o.Log, o.Trace = store, log, p.Trace()
	o.Sites, o.Revoke, o.EachUse, o.Locate, o.Explain = func() []config.Site { return c.Sites }, p.Revoke, p.EachUse, p.Locate, p.Explain
	o.LogIn, o.LoginStatus, o.ExplainLogin = p.LogIn, p.LoginStatus, p.ExplainLogin
	o.Tokens = captcha.New(captcha.Options{Store: captcha.NewMemory(), Service: captcha.Service{Solver: atOnce{}, Threads: 1}})
	t.Cleanup(o.Tokens.Close)
	for _, f := range change {
		f(&o)
	}
	r.Handler, r.trace = New(o), o.Trace
	r.routes = r.Handler.(*server).routes()
	return r
}

// put stores cookies that https://HOST/ sets; SITE/ID is the session.
func (r *road) put(t *testing.T, in, host string, lines ...string) {
	t.Helper()
	u := session.Update{Base: session.Latest}
	for _, line := range lines {
		c, err := session.ParseSetCookie(line, session.Setting{Host: host, Path: "/", Secure: true}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		u.Cookies = append(u.Cookies, c)
	}
	if _, _, err := r.store.Apply(t.Context(), key(in), u, session.Life{}); err != nil {
		t.Fatal(err)
	}
}

func key(in string) session.Key {
	site, id, _ := strings.Cut(in, "/")
	return session.Key{Site: site, ID: id}
}

// held are the cookies of a session, as a Cookie header has them.
func (r *road) held(t *testing.T, in string) string {
	t.Helper()
	jar, err := r.store.Load(t.Context(), key(in))
	if err != nil {
		return err.Error()
	}
	var pairs []string
	for _, c := range jar.Cookies() {
		pairs = append(pairs, c.Name+"="+c.Value+"@"+c.Domain+c.Path)
	}
	return strings.Join(pairs, "; ")
}

// clean fails the test if the log or an answer holds a value or the token.
func (r *road) clean(t *testing.T, answers ...*httptest.ResponseRecorder) {
	t.Helper()
	all := r.log.String()
	for _, w := range answers {
		all += w.Body.String()
	}
	if strings.Contains(all, value) || strings.Contains(all, testToken) {
		t.Errorf("a secret is shown: %s", all)
	}
}

// body gives a request a body of JSON.
func body(s string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Content-Type", "application/json")
		r.Body = io.NopCloser(strings.NewReader(s))
	}
}

// decode reads a success.
func decode[T any](t *testing.T, w *httptest.ResponseRecorder) (v T) {
	t.Helper()
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
