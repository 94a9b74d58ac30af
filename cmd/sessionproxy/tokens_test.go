package main

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
)

// A reload changes who solves and what is kept ready; where the account stays,
// so does its client, which knows of bans.
func TestAReloadChangesTheAccount(t *testing.T) {
	t.Parallel()
	keys := []string{strings.Repeat("a", 32), strings.Repeat("b", 32)}
	var services [2]*captchatest.Service
	var urls [2]string
	var open [2]atomic.Int64 // connections
	for n := range services {
		services[n] = captchatest.New(captchatest.Options{Key: keys[n], Threads: 3,
			Outcome: func(captchatest.Task) captchatest.Outcome { return captchatest.Outcome{} }})
		s := httptest.NewUnstartedServer(services[n])
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				open[n].Add(1)
			case http.StateClosed:
				open[n].Add(-1)
			}
		}
		s.Start()
		defer s.Close()
		urls[n] = s.URL
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "sessionproxy.yaml")
	write := func(account, pool string) {
		t.Helper()
		text := `
listen: [{addr: "127.0.0.1:0"}]
admin: 127.0.0.1:0
ops: 127.0.0.1:0
sites:
  - name: shop
    hosts: [shop.test]
    captcha: [{type: turnstile, sitekey: k, page: "https://shop.test/"` + pool + `}]
` + account
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	account := func(n int) string { return "captchaai: {key: " + keys[n] + ", url: \"" + urls[n] + "\"}\n" }
	source := config.Source{File: file, LookupEnv: noEnv}
	write("", "")
	c, err := config.Load(source)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	i, err := openInstance(c, slog.New(slog.NewTextHandler(&log, nil)), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer i.close()
	warm := func() error {
		site := i.current.Load().Sites[0]
		return i.tokens.Warm(site.Captcha[0].Ask(site), 1)
	}
	if err := warm(); err == nil {
		t.Error("solved without an account")
	}
	for n := range services {
		write(account(n), "")
		i.reload(source)
		was := i.solver
		write(account(n), ", pool: 1")
		i.reload(source)
		if i.solver != was || was == nil {
			t.Error("an account that stayed got another client")
		}
		if err := warm(); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); len(services[n].Tasks()) == 0; time.Sleep(time.Millisecond) {
			if time.Since(began) > 20*time.Second {
				t.Fatalf("service %d was not asked:\n%s", n, &log)
			}
		}
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		seconds, err := testutil.GatherAndCount(i.registry, "sessionproxy_captcha_solve_seconds", "sessionproxy_captcha_tokens")
		if err != nil || time.Since(began) > 20*time.Second {
			t.Fatalf("%d metrics, %v", seconds, err)
		}
		if seconds == 2 {
			break
		}
	}
	write("", "")
	i.reload(source)
	if err := warm(); err == nil || i.solver != nil {
		t.Errorf("%v: solved by an account that is no longer configured", err)
	}
	for n := range open { // sooner than idle connections end by themselves
		for began := time.Now(); open[n].Load() > 0; time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > 20*time.Second {
				t.Fatalf("%d connections to service %d are left of an account that is not configured", open[n].Load(), n)
			}
		}
	}
}

// With a Redis the tokens are in the list that workers know.
func TestTokensAreSharedThroughRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	file := filepath.Join(t.TempDir(), "sessionproxy.yaml")
	text := `
listen: [{addr: "127.0.0.1:0"}]
admin: 127.0.0.1:0
ops: 127.0.0.1:0
store: {url: ` + server.URL() + `, prefix: "qa:"}
sites: [{name: shop, hosts: [shop.test]}]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Source{File: file, LookupEnv: noEnv})
	if err != nil {
		t.Fatal(err)
	}
	i, err := openInstance(c, slog.New(slog.DiscardHandler), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer i.close()
	key := captcha.Key{Site: "shop.test", SiteKey: "k", Action: "login"}
	if err := i.tokens.Push(t.Context(), key, "solved"); err != nil {
		t.Fatal(err)
	}
	if got := server.Client().LRange(t.Context(), "qa:tokens:shop.test:k:login", 0, -1).Val(); len(got) != 1 || got[0] != "solved" {
		t.Errorf("the list holds %q", got)
	}
	if list, _, err := i.tokens.List(t.Context(), "shop.test"); err != nil || len(list) != 1 || list[0].Ready != 1 {
		t.Errorf("%+v, %v; want one ready", list, err)
	}
}
