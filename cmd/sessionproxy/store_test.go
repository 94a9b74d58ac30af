package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/certs"
	"github.com/sessionproxy/sessionproxy/internal/freeport"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/embedded"
)

// serving runs "serve" on free ports until the test is over, and returns the
// address of its ops port, and how to stop it: that returns what it wrote.
func serving(t *testing.T, args ...string) (ops string, stop func() string) {
	t.Helper()
	ops = freeport.Addr(t)
	ctx, cancel := context.WithCancel(t.Context())
	wrote := make(chan string, 1)
	go func() {
		_, _, stderr := sessionproxy(ctx, append([]string{"serve", "--listen", freeport.Addr(t), "--admin", freeport.Addr(t), "--ops", ops}, args...)...)
		wrote <- stderr
	}()
	stopped := ""
	stop = func() string {
		cancel()
		if stopped == "" {
			stopped = <-wrote
		}
		return stopped
	}
	t.Cleanup(func() { stop() })
	redistest.Eventually(t, 10*time.Second, "it is ready", func() bool {
		select {
		case stderr := <-wrote:
			stopped = stderr
			t.Fatalf("it ended: %s", stderr)
		default:
		}
		return get(t, "http://"+ops+"/readyz") == "ready"
	})
	return ops, stop
}

func TestServeOnRedis(t *testing.T) {
	server := redistest.Single(t)
	state := filepath.Join(t.TempDir(), "state")
	ops, stop := serving(t, "--share", "shop.test", "--state", state, "--store", server.URL())
	metric := func(want string) func() bool {
		return func() bool { return strings.Contains(get(t, "http://"+ops+"/metrics"), want) }
	}
	if !metric("sessionproxy_store_up 1")() || !metric("sessionproxy_store_connections{")() {
		t.Error("its metrics say nothing of the store")
	}

	code, _, stderr := sessionproxy(t.Context(), "serve", "--share", "shop.test", "--state", filepath.Join(t.TempDir(), "state"), "--store", server.URL(),
		"--listen", freeport.Addr(t), "--admin", freeport.Addr(t), "--ops", freeport.Addr(t))
	if code != 1 || !strings.Contains(stderr, "another proxy on this Redis signs with another CA") || !strings.Contains(stderr, "delete the key session:ca") {
		t.Errorf("a proxy with another CA: exit code %d, %s", code, stderr)
	}
	if got := server.Do("GET", "session:layout"); got != "1" {
		t.Errorf("session:layout holds %v, want 1", got)
	}
	server.Do("SET", "session:layout", "2")
	for _, args := range [][]string{
		{"serve", "--share", "shop.test", "--state", state, "--store", server.URL(), "--listen", freeport.Addr(t), "--admin", freeport.Addr(t), "--ops", freeport.Addr(t)},
		{"store", "copy", server.URL(), t.TempDir()},
	} {
		code, _, stderr := sessionproxy(t.Context(), args...)
		if code != 1 || !strings.Contains(stderr, `have layout "2", and this release reads and writes layout 1: run the release`) {
			t.Errorf("%s on another release's keys: exit code %d, %s", args[0], code, stderr)
		}
	}
	server.Do("SET", "session:layout", "1")
	serving(t, "--share", "shop.test", "--state", state, "--store", server.URL())

	// Nobody asks for a session, so the outage shows when a worker writes.
	server.Do("HSET", "session:cookies:shop.test", "sid", "1")
	server.Kill()
	redistest.Eventually(t, 10*time.Second, "the store is away", func() bool {
		get(t, "http://"+ops+"/readyz")
		return get(t, "http://"+ops+"/readyz") == "degraded"
	})
	server.Start()
	redistest.Eventually(t, 10*time.Second, "the store is back", func() bool { return get(t, "http://"+ops+"/readyz") == "ready" })
	if stderr := stop(); !strings.Contains(stderr, "sessions live in Redis") || !strings.Contains(stderr, "values in clear") {
		t.Errorf("its log does not say where sessions live: %s", stderr)
	}
}

func TestProxiesOnOneRedisShareTheirUpstreams(t *testing.T) {
	server := redistest.Single(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "shop.yaml")
	text := `
ca: {cert: ca/ca.pem, key: ca/ca.key}
upstream: eu
sites: [{name: shop, hosts: [shop.test]}]
upstreams: {eu: {discover: true}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(dir, "ca")
	if err := os.Mkdir(ca, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := certs.Open(ca, nil); err != nil {
		t.Fatal(err)
	}
	proxies := map[string]string{"a": freeport.Addr(t), "b": freeport.Addr(t)}
	for name, admin := range proxies {
		serving(t, "--config", file, "--state", filepath.Join(dir, name), "--store", server.URL(), "--admin", admin)
	}
	upstreams := func(proxy string, args ...string) string {
		t.Helper()
		code, stdout, stderr := sessionproxy(t.Context(), append([]string{"upstreams", "--admin", proxies[proxy], "--state", filepath.Join(dir, proxy)}, args...)...)
		if code != 0 {
			t.Fatalf("%s: %s", args, stderr)
		}
		return stdout
	}
	upstreams("a", "add", "http://ana:hunter2@10.0.0.1:3128")
	if list := upstreams("b", "list"); !strings.Contains(list, "http://10.0.0.1:3128") || strings.Contains(list, "hunter2") {
		t.Errorf("the other proxy lists\n%s", list)
	}
	upstreams("b", "rm", "10.0.0.1:3128")
	if list := upstreams("a", "list"); strings.Contains(list, "10.0.0.1") {
		t.Errorf("the first lists yet\n%s", list)
	}
}

func TestServeSaysWhatIsWrongWithItsRedis(t *testing.T) {
	for _, tt := range []struct {
		name, store, want string
		code              int
	}{
		{"nobody there", "redis://" + freeport.Addr(t), "store redis://127.0.0.1:", 1},
		{"no URL", "http://10.0.0.4", "a store's URL does not begin like this", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, _, stderr := sessionproxy(t.Context(), "serve", "--share", "shop.test", "--state", filepath.Join(t.TempDir(), "state"), "--store", tt.store,
				"--listen", freeport.Addr(t), "--admin", freeport.Addr(t), "--ops", freeport.Addr(t))
			if code != tt.code || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, %s; want %d, and in it %q", code, stderr, tt.code, tt.want)
			}
		})
	}
}

func TestStoreCopy(t *testing.T) {
	server := redistest.Single(t)
	dir := t.TempDir()
	first, last := filepath.Join(dir, "first"), filepath.Join(dir, "last")
	shop := session.Key{Site: "shop.test", ID: session.DefaultID}
	private, revoked := session.Key{Site: shop.Site, ID: shop.ID, Worker: "w"}, session.Key{Site: "b.test", ID: "qa"}
	life := session.Life{Idle: time.Hour}
	cookie := func(pair string) session.Cookie {
		name, value, _ := strings.Cut(pair, "=")
		return session.Cookie{Name: name, Value: value, Domain: "shop.test", HostOnly: true, Path: "/", Secure: true}
	}
	gone := cookie("gone=")
	gone.Expires = time.Unix(1, 0)

	if err := os.MkdirAll(first, 0o700); err != nil {
		t.Fatal(err)
	}
	store, err := embedded.Open(filepath.Join(first, "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		key session.Key
		c   session.Cookie
	}{{shop, cookie("sid=1")}, {shop, cookie("gone=1")}, {shop, gone}, {private, cookie("csrf=1")}, {revoked, cookie("sid=2")}} {
		if _, _, err := store.Apply(t.Context(), step.key, session.Update{Base: session.Latest, Writer: session.ByOperator, Cookies: []session.Cookie{step.c}}, life); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Revoke(t.Context(), revoked); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	copyTo := func(from, to string) {
		t.Helper()
		code, stdout, stderr := sessionproxy(t.Context(), "store", "copy", from, to)
		if code != 0 || stdout != "copied 2 sessions and 1 private jars\n" || stderr != "" {
			t.Fatalf("store copy %s %s: exit code %d, %q, %q", from, to, code, stdout, stderr)
		}
	}
	copyTo(first, server.URL())
	if got := fmt.Sprint(server.Do("HGETALL", "session:cookies:shop.test")); !strings.Contains(got, "sid") {
		t.Errorf("workers see %s", got)
	}
	copyTo(server.URL(), last)
	copyTo(server.URL(), last) // once more changes nothing

	if store, err = embedded.Open(filepath.Join(last, "store.db")); err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	jar, err := store.Load(t.Context(), shop)
	if err != nil || len(jar.Cookies()) != 1 || jar.Cookies()[0].Value != "1" || jar.Cookies()[0].Writer != session.ByOperator || len(jar.Parts().Marks) != 1 {
		t.Errorf("the session came as %+v, %v", jar, err)
	}
	if jar, err = store.Load(t.Context(), private); err != nil || len(jar.Cookies()) != 1 {
		t.Errorf("the private jar came as %+v, %v", jar, err)
	}
	if jar, err = store.Load(t.Context(), revoked); err != nil || jar.Floor() == 0 {
		t.Errorf("the revoked session came as %+v, %v", jar, err)
	}
	if list, err := store.List(t.Context(), ""); err != nil || len(list) != 1 || time.Until(list[0].Expires) < 50*time.Minute {
		t.Errorf("the list is %+v, %v", list, err)
	}
}

func TestStoreCopySaysWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"embedded", 2, "name the store to copy from, and the one to copy to"},
		{filepath.Join(t.TempDir(), "none") + " embedded", 1, "name a state directory with a store in it"},
		{"ftp://x embedded", 1, "redis[s]://"},
	} {
		code, _, stderr := sessionproxy(t.Context(), append([]string{"store", "copy"}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("store copy %s: exit code %d, %q; want %d, and in it %q", tt.args, code, stderr, tt.code, tt.want)
		}
	}
}

func TestWhatProxiesShareBesideSessionsIsInRedisToo(t *testing.T) {
	server := redistest.Single(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "sessionproxy.yaml")
	text := fmt.Sprintf(`
store: %s
sites:
  - {name: shop, hosts: [shop.test], upstream: eu, login: {request: {path: /login}, logged_out: {redirect: "*/login*"}}}
upstreams: {eu: {proxies: ["http://127.0.0.1:9"]}}
`, server.URL())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stop := serving(t, "--config", file)
	for _, shared := range []struct{ what, key string }{
		{"the pool of upstreams", "{session:proxy_pool:eu}:members"},
		{"the keys that sign tokens", "session:access:keys"},
	} {
		redistest.Eventually(t, 10*time.Second, shared.what+" is in Redis", func() bool {
			return fmt.Sprint(server.Do("EXISTS", shared.key)) == "1"
		})
	}
	stop()
}

// The first proxy on a new Redis leases upstreams at once. Where Redis has lost
// what it knew, and may have known leases, it says how long that takes.
func TestTheFirstMinuteOfUpstreamsOnRedis(t *testing.T) {
	server := redistest.Single(t)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "served") }))
	defer origin.Close()
	up := world.NewUpstream(t, world.UpstreamOptions{})
	dir := t.TempDir()
	file := filepath.Join(dir, "sessionproxy.yaml")
	text := fmt.Sprintf(`
store: %s
upstreams: {eu: {proxies: ["%s"], wait: 1s}}
sites: [{name: shop, hosts: [shop.test], upstream: eu, origin: {resolve: {shop.test: "%s"}}}]
`, server.URL(), up.URL, origin.Listener.Addr())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func() (status int, retry, body, log string) {
		addr := freeport.Addr(t)
		_, stop := serving(t, "--config", file, "--listen", addr)
		defer stop()
		tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: addr})}
		defer tr.CloseIdleConnections()
		resp, err := (&http.Client{Transport: tr}).Get("http://shop.test/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, resp.Header.Get("Retry-After"), string(b), stop()
	}
	if status, _, body, _ := ask(); status != 200 || body != "served" {
		t.Errorf("the first proxy answered %d %q", status, body)
	}
	server.Kill()
	server.Wipe()
	server.Start()
	status, retry, body, log := ask()
	if n, err := strconv.Atoi(retry); status != 503 || err != nil || n < 1 || n > 30 || !strings.Contains(body, "Try again in "+retry+" s") {
		t.Errorf("once Redis has lost all, it answered %d %q, Retry-After %q", status, body, retry)
	}
	if n := strings.Count(log, "no new leases for a while"); n != 1 {
		t.Errorf("the log says so %d times, want once:\n%s", n, log)
	}
}
