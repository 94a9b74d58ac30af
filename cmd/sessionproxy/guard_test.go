package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/admin"
)

// guardedInstance serves a configuration, of which change writes another and
// has it read.
func guardedInstance(t *testing.T, files map[string]string) (i *instance, source config.Source, change func(text string)) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		write(name, text)
	}
	source = config.Source{File: filepath.Join(dir, "sessionproxy.yaml"), LookupEnv: noEnv}
	c, err := config.Load(source)
	if err != nil {
		t.Fatal(err)
	}
	i, err = openInstance(c, slog.New(slog.DiscardHandler), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := i.serve(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		serving.Wait()
		i.close()
	})
	return i, source, func(text string) {
		t.Helper()
		write("sessionproxy.yaml", text)
		i.reload(source)
	}
}

const loopbackPorts = "listen: [{addr: \"127.0.0.1:0\"}]\nadmin: 127.0.0.1:0\nops: 127.0.0.1:0\nsites: [{name: shop, hosts: [shop.test]}]\n"

// Off loopback the admin API speaks https, by its certificate's names.
func TestTheAdminAPIOffLoopback(t *testing.T) {
	t.Parallel()
	cert, key := makeCA(t, false, time.Now().Add(time.Hour), "proxy.test")
	i, _, _ := guardedInstance(t, map[string]string{
		"proxy.pem": cert, "proxy.key": key,
		"sessionproxy.yaml": strings.Replace(loopbackPorts, "admin: 127.0.0.1:0", "admin: 0.0.0.0:0", 1) + "tls: {cert: proxy.pem, key: proxy.key}\n",
	})
	_, port, _ := net.SplitHostPort(i.admin.Addr().String())
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(cert))
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "proxy.test"}, DisableKeepAlives: true}
	for url, want := range map[string]int{
		"https://proxy.test:" + port: 200,
		"https://127.0.0.1:" + port:  200,
		"https://evil.test:" + port:  421,
		"http://127.0.0.1:" + port:   400,
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/api/v1/version", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+i.token)
		r.Host = r.URL.Host
		r.URL.Host = "127.0.0.1:" + port
		resp, err := (&http.Client{Transport: tr}).Do(r)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", url, resp.Status, want)
		}
	}
}

// broken is a collector that fails.
type broken struct{}

func (broken) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(broken{}, to) }

func (broken) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "Never there.", nil, nil), errors.New("its cause"))
}

// A collector that fails hides no other, and its cause is not for everybody.
func TestMetricsOutliveABrokenCollector(t *testing.T) {
	t.Parallel()
	i, _, _ := guardedInstance(t, map[string]string{"sessionproxy.yaml": loopbackPorts})
	i.registry.MustRegister(broken{})
	resp, err := http.Get("http://" + i.ops.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(b), "sessionproxy_config_last_reload_success 1") || strings.Contains(string(b), "its cause") {
		t.Errorf("%s, %v\n%s", resp.Status, err, b)
	}
}

// A reload changes who may come in, and shows what is wrong with one that can't.
func TestAReloadChangesOperatorsAndTheAuditLog(t *testing.T) {
	t.Parallel()
	operators := func(names ...string) string {
		var list []string
		for _, n := range names {
			list = append(list, "{name: "+n+", password: s3cretpassword, role: operator}")
		}
		return loopbackPorts + "audit: {to: one.jsonl}\nauth: {operators: [" + strings.Join(list, ", ") + "]}\n"
	}
	i, source, change := guardedInstance(t, map[string]string{"sessionproxy.yaml": operators("ana")})
	api := admin.Client{Addr: i.admin.Addr().String()}
	logIn := func(name string) (token string) {
		b, err := api.Do(t.Context(), "POST", admin.Path("login"), admin.Login{Name: name, Password: "s3cretpassword"})
		if err != nil {
			return ""
		}
		var in admin.LoggedIn
		if err := json.Unmarshal(b, &in); err != nil {
			t.Fatal(err)
		}
		return in.AccessToken
	}
	api.Token = logIn("ana")
	if api.Token == "" || logIn("eva") != "" {
		t.Fatal("ana can't log in, or eva can")
	}
	before := i.loadedConfig()
	change(operators("ana") + "nonsense: 1\n")
	b, err := api.Do(t.Context(), "GET", admin.Path("config"), nil)
	var shown admin.Config
	if err != nil || json.Unmarshal(b, &shown) != nil || len(shown.Faults) != 1 || !strings.Contains(shown.Faults[0].Message, "nonsense") || !shown.Loaded.Equal(before.Loaded) {
		t.Errorf("%s, %v", b, err)
	}
	change(strings.Replace(operators("eva"), "one.jsonl", "two.jsonl", 1))
	if len(i.loadedConfig().Faults) != 0 {
		t.Errorf("faults of a valid configuration: %v", i.loadedConfig().Faults)
	}
	if _, err := api.Do(t.Context(), "GET", admin.Path("me"), nil); err == nil {
		t.Error("ana is no longer declared, and her token is good")
	}
	if logIn("eva") == "" {
		t.Error("eva can't log in")
	}
	dir := filepath.Dir(source.File)
	wantLines(t, filepath.Join(dir, "one.jsonl"), `"by":"ana"`)
	wantLines(t, filepath.Join(dir, "two.jsonl"), `"by":"eva"`)
	if err := os.Rename(filepath.Join(dir, "two.jsonl"), filepath.Join(dir, "two.jsonl.1")); err != nil {
		t.Fatal(err)
	}
	i.reopenAudit() // as SIGHUP does
	logIn("eva")
	wantLines(t, filepath.Join(dir, "two.jsonl"), `"by":"eva"`)
}

func wantLines(t *testing.T, file, part string) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(b), part) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %q, %v; want %s", filepath.Base(file), b, err, part)
		}
	}
}
