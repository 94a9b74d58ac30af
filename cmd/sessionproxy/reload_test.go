package main

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/freeport"
)

func TestAReloadRenewsTheCertificateOfHTTPSPorts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "sessionproxy.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	firstCert, firstKey := makeCA(t, false, time.Now().Add(time.Hour))
	nextCert, nextKey := makeCA(t, false, time.Now().Add(time.Hour))
	const (
		ports = "listen: [{addr: \"127.0.0.1:0\", tls: true}]\n"
		pair  = "tls: {cert: proxy.pem, key: proxy.key}\n"
		rest  = "admin: 127.0.0.1:0\nops: 127.0.0.1:0\nsites: [{name: shop, hosts: [shop.test]}]\n"
	)
	write("proxy.pem", firstCert)
	write("proxy.key", firstKey)
	write("sessionproxy.yaml", ports+pair+rest)
	source := config.Source{File: file, LookupEnv: noEnv}
	c, err := config.Load(source)
	if err != nil {
		t.Fatal(err)
	}
	i, err := openInstance(c, slog.New(slog.DiscardHandler), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer i.close()
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	defer serving.Wait()
	defer stop()
	serving.Go(func() {
		if err := i.serve(ctx); err != nil {
			t.Error(err)
		}
	})
	if got, want := get(t, "http://"+i.admin.Addr().String()+"/proxy.pac"), `"HTTPS `+i.listeners[0].Addr().String()+`"`; !strings.Contains(got, want) {
		t.Errorf("proxy.pac lacks %s:\n%s", want, got)
	}

	for _, step := range []struct {
		name       string
		change     func()
		want       string
		undeclared config.Undeclared
		ok         float64
	}{
		{"as it started", func() {}, firstCert, config.Tunnel, 1},
		{"renewed", func() { write("proxy.pem", nextCert); write("proxy.key", nextKey) }, nextCert, config.Tunnel, 1},
		{"half renewed, beside another change", func() {
			write("proxy.pem", firstCert)
			write("sessionproxy.yaml", ports+pair+rest+"undeclared: refuse\n")
		}, nextCert, config.Tunnel, 0},
		{"renewed in full", func() { write("proxy.key", firstKey) }, firstCert, config.Refuse, 1},
		{"no longer declared, which waits for a restart", func() { write("sessionproxy.yaml", rest) }, firstCert, config.Tunnel, 1},
	} {
		step.change()
		i.reload(source)
		if got := shownCertificate(t, i.listeners[0].Addr().String()); got != step.want {
			t.Errorf("%s: another certificate is shown", step.name)
		}
		if got := i.current.Load().Undeclared; got != step.undeclared {
			t.Errorf("%s: undeclared is %s, want %s", step.name, got, step.undeclared)
		}
		if got := testutil.ToFloat64(i.reloadOK); got != step.ok {
			t.Errorf("%s: last_reload_success %v, want %v", step.name, got, step.ok)
		}
	}
}

// shownCertificate is what a TLS server shows, in PEM.
func shownCertificate(t *testing.T, addr string) string {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: conn.ConnectionState().PeerCertificates[0].Raw}))
}

// The files could be replaced between the judgement of a configuration and its
// being put in force.
func TestAPairThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	i := &instance{config: &config.Config{Listen: []config.Listen{{TLS: true}}}}
	gone := filepath.Join(t.TempDir(), "gone.pem")
	if _, err := i.openCertificate(config.TLS{Cert: gone, Key: gone}); err == nil || !strings.HasPrefix(err.Error(), "read tls.cert and tls.key: open "+gone) {
		t.Errorf("%v", err)
	}
}

// Between reading the configuration and looking for changes lie the making of
// a CA and the opening of a store.
func TestAChangeDuringTheStartIsReloaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "sessionproxy.yaml")
	proxy := freeport.Addr(t)
	write := func(more string) {
		text := fmt.Sprintf("listen: [{addr: %q}]\nadmin: 127.0.0.1:0\nops: 127.0.0.1:0\nsites: [{name: shop, hosts: [shop.test]}]\n%s", proxy, more)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	write("")
	// The environment is asked after the file was read.
	change := sync.OnceFunc(func() { write("undeclared: refuse\n") })
	env := func(string) (string, bool) { change(); return "", false }
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan string, 1)
	var stderr strings.Builder
	go func() {
		err := serve(ctx, config.Source{File: file, LookupEnv: env}, &strings.Builder{}, &stderr)
		ended <- fmt.Sprint(err, stderr.String())
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}}
	refused := func() bool {
		resp, err := client.Get("http://127.0.0.1:1/")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return strings.Contains(resp.Header.Get("Proxy-Status"), "undeclared")
	}
	for end := time.Now().Add(20 * time.Second); !refused() && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	stop()
	if log := <-ended; !strings.Contains(log, "the new configuration is in force") {
		t.Errorf("the change is not in force:\n%s", log)
	}
}
