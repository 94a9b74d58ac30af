package proxy_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/loginsites"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/proxy/login/redislock"
)

// A worker in Python that holds the lock and logs in through the proxy is
// waited for, and let through.
func TestAnUnmodifiedPythonWorker(t *testing.T) {
	t.Parallel()
	const python = "/usr/bin/python3" // that has the system's packages
	if err := exec.CommandContext(t.Context(), python, "-c", "import redis").Run(); err != nil {
		t.Fatal("missing: the Debian package python3-redis")
	}
	server := redistest.Single(t)
	site := loginsites.New(loginsites.Options{})
	proxies := three(t, site, true, redislock.New(server.Client(), "session:", patience))
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, proxies[0].CA, 0o600); err != nil {
		t.Fatal(err)
	}
	const lock = "session:lock:" + world.Host
	worker := exec.CommandContext(t.Context(), python, "testdata/worker.py", server.Socket, lock, "https://"+world.Host)
	worker.Env = append(os.Environ(), "https_proxy=http://"+proxies[0].Addr, "SSL_CERT_FILE="+ca, "no_proxy=")
	worker.Stderr = os.Stderr
	in, err := worker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "form" {
		t.Fatalf("the worker says %q, want the form", lines.Text())
	}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() { askHello(t, proxies[i%3], world.TunnelH1) })
	}
	world.Eventually(t, "the clients are sent to the form", func() bool { return site.Forms() >= 6 })
	if site.Attempts() != 0 {
		t.Errorf("%d logins while the worker has the lock", site.Attempts())
	}
	fmt.Fprintln(in)
	if !lines.Scan() || !strings.Contains(lines.Text(), "Hello alice") {
		t.Errorf("the worker reads %q", lines.Text())
	}
	if err := worker.Wait(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if site.Logins() != 1 {
		t.Errorf("%d logins reached the site, want the worker's", site.Logins())
	}
}
