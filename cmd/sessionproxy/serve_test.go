package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/freeport"
)

// sessionproxy runs the program with an empty environment until it ends, or
// until ctx does.
func sessionproxy(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, args, noEnv, &out, &errs)
	return code, out.String(), errs.String()
}

func TestServeSaysWhatStandsInItsWay(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	expiredCert, expiredKey := makeCA(t, true, time.Now().Add(-time.Hour))
	leafCert, leafKey := makeCA(t, false, time.Now().Add(time.Hour))
	config := func(name, cert, key string) string {
		file(name+".pem", cert, 0o644)
		file(name+".key", key, 0o600)
		return file(name+".yaml", fmt.Sprintf("ca: {cert: %s.pem, key: %s.key}\nsites: [{name: shop, hosts: [shop.test]}]\n", name, name), 0o644)
	}

	for _, tt := range []struct {
		name string
		args []string
		code int
		want string // in stderr
	}{
		{"a busy port", []string{"--listen", busy.Addr().String()}, 1,
			"open listen: listen tcp " + busy.Addr().String() + ": bind: address already in use; another program has this port: stop it, or choose another with --listen"},
		{"a busy ops port, before anything is served", []string{"--ops", busy.Addr().String()}, 1, "choose another with --ops"},
		{"an address of another machine", []string{"--admin", "127.0.0.1:0", "--listen", "192.0.2.1:8080,ask,plain_auth"}, 2, "clients"},
		{"a state directory that can't be made", []string{"--state", filepath.Join(file("plain", "", 0o600), "state")}, 1,
			"not a directory; give --state a directory that can be written"},
		{"a CA that is none", []string{"--config", config("leaf", leafCert, leafKey)}, 2, "this certificate is no authority"},
		{"an expired CA", []string{"--config", config("expired", expiredCert, expiredKey)}, 1, "expired"},
		{"a CA file that is no certificate", []string{"--config", config("text", "hello", leafKey)}, 2, "text.pem"},
		{"the key of another CA", []string{"--config", config("other", expiredCert, leafKey)}, 2, "private key does not match"},
		{"an open proxy", []string{"--listen", "0.0.0.0:8080"}, 2, "clients"},
		{"a configuration that is not there", []string{"--config", filepath.Join(dir, "none.yaml")}, 2, "no such file"},
		{"nothing to share", []string{"--listen", "127.0.0.1:0"}, 2, "name a site with --share HOST, or a configuration with --config FILE"},
		{"an unknown flag", []string{"--lisen", "x"}, 2, "unknown flag: --lisen"},
		{"a host without its flag", []string{"shop.test"}, 2, "serve takes no argument: a configuration is given with --config FILE, a host with --share HOST"},
		{"a configuration that declares nothing", []string{"--config", file("nothing.yaml", "admin: 127.0.0.1:8081\n", 0o600)}, 2, "no site is declared"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"serve"}
			given := strings.Join(tt.args, " ")
			for _, port := range []string{"--listen", "--admin", "--ops"} {
				if !strings.Contains(given, port) {
					args = append(args, port, freeport.Addr(t))
				}
			}
			if !strings.Contains(given, "--config") && tt.name != "nothing to share" {
				args = append(args, "--share", "shop.test")
			}
			if !strings.Contains(given, "--state") {
				args = append(args, "--state", filepath.Join(t.TempDir(), "state"))
			}
			code, stdout, stderr := sessionproxy(t.Context(), append(args, tt.args...)...)
			if code != tt.code || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, stderr\n%s\nwant %d, and in it %q", code, stderr, tt.code, tt.want)
			}
			if stdout != "" {
				t.Errorf("it greets all the same: %q", stdout)
			}
		})
	}
}

func TestServeGreetsServesAndDrains(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	proxy, admin, ops := freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)
	ctx, stop := context.WithCancel(t.Context())
	type result struct {
		code           int
		stdout, stderr string
	}
	ended := make(chan result)
	go func() {
		code, stdout, stderr := sessionproxy(ctx, "serve", "--share", "shop.test", "--state", dir, "--listen", proxy, "--admin", admin, "--ops", ops)
		ended <- result{code, stdout, stderr}
	}()
	for get(t, "http://"+ops+"/readyz") != "ready" {
		select {
		case r := <-ended:
			t.Fatalf("it ended: %+v", r)
		case <-time.After(5 * time.Millisecond):
		}
	}
	if got := get(t, "http://"+ops+"/metrics"); !strings.Contains(got, "sessionproxy_config_last_reload_success 1") {
		t.Errorf("metrics lack the reload:\n%s", got)
	}
	stop()
	r := <-ended
	if r.code != 0 {
		t.Errorf("exit code %d, want 0", r.code)
	}
	for _, want := range []string{"http://" + proxy, filepath.Join(dir, "ca.pem"), "curl -x"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("the greeting lacks %q:\n%s", want, r.stdout)
		}
	}
	if !strings.Contains(r.stderr, "msg=serving") || !strings.Contains(r.stderr, "msg=\"stopping: requests under way may finish\"") {
		t.Errorf("the log lacks start or stop:\n%s", r.stderr)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("state directory: %v, %v; want mode 0700", info.Mode(), err)
	}
	for _, secret := range []string{"ca.key", "admin.token", "store.db"} {
		if info, err := os.Stat(filepath.Join(dir, secret)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", secret, info, err)
		}
	}
}

func TestAChangedConfigurationIsReloaded(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sessionproxy.yaml")
	proxy, admin, ops := freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)
	write := func(undeclared string) {
		text := fmt.Sprintf("listen: [{addr: %q}]\nadmin: %s\nops: %s\nundeclared: %s\nsites: [{name: shop, hosts: [shop.test]}]\n", proxy, admin, ops, undeclared)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tunnel")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan string)
	go func() {
		_, _, stderr := sessionproxy(ctx, "serve", "--config", file)
		ended <- stderr
	}()
	until := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not %s in time", what)
			}
		}
	}
	metric := func(value string) func() bool {
		return func() bool {
			return strings.Contains(get(t, "http://"+ops+"/metrics"), "sessionproxy_config_last_reload_success "+value+"\n")
		}
	}
	refuses := func() bool {
		client := &http.Client{Transport: &http.Transport{Proxy: func(*http.Request) (*url.URL, error) {
			return &url.URL{Scheme: "http", Host: proxy}, nil
		}, DisableKeepAlives: true}}
		resp, err := client.Get("http://127.0.0.1:1/")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return strings.Contains(resp.Header.Get("Proxy-Status"), "undeclared")
	}
	until("serving", metric("1"))
	if refuses() {
		t.Error("undeclared hosts are refused before anything says so")
	}
	write("nonsense")
	until("told of the fault", metric("0"))
	write("refuse")
	until("in force", refuses)
	until("told of success", metric("1"))
	stop()
	log := <-ended
	for _, want := range []string{"the old configuration stays in force", "undeclared", "the new configuration is in force"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
}

func TestVersion(t *testing.T) {
	code, stdout, _ := sessionproxy(t.Context(), "version")
	if want := regexp.MustCompile(`^sessionproxy \S+ go1\.\d+(\.\d+)? \w+/\w+\n$`); code != 0 || !want.MatchString(stdout) {
		t.Errorf("exit code %d, %q", code, stdout)
	}
}

// makeCA makes a certificate that may be a CA, and ends at end.
func makeCA(t *testing.T, isCA bool, end time.Time, names ...string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: end, IsCA: isCA, BasicConstraintsValid: true, DNSNames: names,
	}
	if isCA {
		c.KeyUsage = x509.KeyUsageCertSign
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

// get returns a body, or "" where nobody answers yet.
func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	b.ReadFrom(resp.Body)
	return b.String()
}
