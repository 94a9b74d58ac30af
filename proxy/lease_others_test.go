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
		t.Fatalf("%v; the Debian packages tinyproxy-bin and microsocks have it", err)
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

func freeAddr(t *testing.T) (addr, port string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	_, port, _ = net.SplitHostPort(ln.Addr().String())
	return ln.Addr().String(), port
}

func TestProxiesThatOthersWrote(t *testing.T) {
	t.Parallel()
	const user, password = "customer", "hunter2"
	tinyproxy := func(t *testing.T, w *world.World) string {
		addr, port := freeAddr(t)
		conf := filepath.Join(t.TempDir(), "tinyproxy.conf")
		_, tlsPort, _ := net.SplitHostPort(w.Origin.Addr("443"))
		_, h1Port, _ := net.SplitHostPort(w.Origin.Addr("8443"))
		text := fmt.Sprintf("Port %s\nListen 127.0.0.1\nTimeout 60\nMaxClients 50\nAllow 127.0.0.1\nBasicAuth %s %s\nConnectPort %s\nConnectPort %s\n",
			port, user, password, tlsPort, h1Port)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		program(t, addr, "tinyproxy", "-d", "-c", conf)
		return "http://" + user + ":%s@" + addr
	}
	microsocks := func(t *testing.T, _ *world.World) string {
		addr, port := freeAddr(t)
		program(t, addr, "microsocks", "-i", "127.0.0.1", "-p", port, "-u", user, "-P", password)
		return "socks5://" + user + ":%s@" + addr
	}
	for name, start := range map[string]func(*testing.T, *world.World) string{"tinyproxy": tinyproxy, "microsocks": microsocks} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Handler: path, Faulty: true})
			url := start(t, w)
			w.Change(t, leaving(nil, &world.Upstream{URL: fmt.Sprintf(url, password)}))
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
			w.Change(t, leaving(func(p *config.Pool) { p.Strict = true }, &world.Upstream{URL: fmt.Sprintf(url, "wrong")}))
			world.Eventually(t, "the wrong password is told", func() bool {
				return strings.Contains(w.GetAs(t, world.TunnelH1, worker(1), "/").Header.Get("Proxy-Status"), "upstream_auth")
			})
		})
	}
}
