package proxy_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/freeport"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

// program runs a proxy that others wrote until the test ends, and waits until
// it serves on addr.
func program(t *testing.T, addr, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	out := new(strings.Builder)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; the Debian packages tinyproxy-bin, microsocks and stunnel4 have it", err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait() // killed
	})
	world.Eventually(t, name+" serves", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func TestProxiesThatOthersWrote(t *testing.T) {
	t.Parallel()
	const user, password = "customer", "hunter2"
	type upstream struct{ url, ca string } // url: with %s for the password
	tinyproxy := func(t *testing.T, w *world.World) upstream {
		addr := freeport.Addr(t)
		_, port, _ := net.SplitHostPort(addr)
		conf := filepath.Join(t.TempDir(), "tinyproxy.conf")
		_, tlsPort, _ := net.SplitHostPort(w.Origin.Addr("443"))
		_, h1Port, _ := net.SplitHostPort(w.Origin.Addr("8443"))
		text := fmt.Sprintf("Port %s\nListen 127.0.0.1\nTimeout 60\nMaxClients 50\nAllow 127.0.0.1\nBasicAuth %s %s\nConnectPort %s\nConnectPort %s\n",
			port, user, password, tlsPort, h1Port)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		program(t, addr, "tinyproxy", "-d", "-c", conf)
		return upstream{url: "http://" + user + ":%s@" + addr}
	}
	// Behind stunnel, as the HTTPS proxies of many providers are built.
	stunnel := func(t *testing.T, w *world.World) upstream {
		plain := tinyproxy(t, w)
		_, behind, _ := strings.Cut(plain.url, "@")
		addr := freeport.Addr(t)
		pair := redistest.NewCertificates(t, false)
		conf := filepath.Join(t.TempDir(), "stunnel.conf")
		text := fmt.Sprintf("foreground = yes\npid =\n[proxy]\naccept = %s\nconnect = %s\ncert = %s\nkey = %s\n", addr, behind, pair.Cert, pair.Key)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		program(t, addr, "stunnel", conf)
		return upstream{url: "https://" + user + ":%s@" + addr, ca: pair.CA}
	}
	microsocks := func(t *testing.T, _ *world.World) upstream {
		addr := freeport.Addr(t)
		_, port, _ := net.SplitHostPort(addr)
		program(t, addr, "microsocks", "-i", "127.0.0.1", "-p", port, "-u", user, "-P", password)
		return upstream{url: "socks5://" + user + ":%s@" + addr}
	}
	for name, start := range map[string]func(*testing.T, *world.World) upstream{"tinyproxy": tinyproxy, "stunnel": stunnel, "microsocks": microsocks} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Handler: path, Faulty: true})
			u := start(t, w)
			with := func(password string) *world.Upstream {
				return &world.Upstream{URL: fmt.Sprintf(u.url, password), CAFile: u.ca}
			}
			w.Change(t, leaving(nil, with(password)))
			for _, via := range []world.Way{world.TunnelH1, world.TunnelH2, world.TunnelH2H1} {
				if a := w.Get(t, via, "/a%2Fb?c"); a.StatusCode != 200 || !strings.HasSuffix(a.Text, "/a%2Fb?c") {
					t.Errorf("%s: answered %d %q", via.Name, a.StatusCode, a.Text)
				}
			}
			plain := "http://" + w.Origin.Addr("80") + "/a%2Fb?c" // no CONNECT may go there
			if a := world.Do(t, w.Client(world.Plain), world.Request(t, "GET", plain, nil)); a.StatusCode != 200 || !strings.HasSuffix(a.Text, "/a%2Fb?c") {
				t.Errorf("plain: answered %d %q", a.StatusCode, a.Text)
			}
			if a := world.Do(t, w.Client(world.Plain), world.Request(t, "GET", "http://127.0.0.1:1/", nil)); a.StatusCode/100 != 5 {
				t.Errorf("a target that is down: answered %d %q", a.StatusCode, a.Text)
			}
			w.Change(t, leaving(func(p *config.Pool) { p.Strict = true }, with("wrong")))
			world.Eventually(t, "the wrong password is told", func() bool {
				return strings.Contains(w.GetAs(t, world.TunnelH1, worker(1), "/").Header.Get("Proxy-Status"), "upstream_auth")
			})
		})
	}
}
