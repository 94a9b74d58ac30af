package proxy_test

import (
	"bufio"
	"fmt"
	"io"
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
	"github.com/sessionproxy/sessionproxy/session"
)

// python is a program in Python that knows nothing of the proxy.
type python struct {
	*testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

// startWorker has it reach the site at that URL, with more in its environment.
func startWorker(t *testing.T, server *redistest.Server, site string, env ...string) *python {
	t.Helper()
	const interpreter = "/usr/bin/python3" // that has the system's packages
	if err := exec.CommandContext(t.Context(), interpreter, "-c", "import redis").Run(); err != nil {
		t.Fatal("missing: the Debian package python3-redis")
	}
	w := &python{T: t, cmd: exec.CommandContext(t.Context(), interpreter, "testdata/worker.py", server.Socket,
		"session:lock:"+world.Host, "session:cookies:"+world.Host, site)}
	w.cmd.Env = append(append(os.Environ(), "no_proxy="), env...)
	w.cmd.Stderr = os.Stderr
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.out = bufio.NewScanner(out)
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return w
}

// says reads the next thing that it prints.
func (w *python) says(want string) {
	w.Helper()
	if !w.out.Scan() || !strings.Contains(w.out.Text(), want) {
		w.Fatalf("the worker says %q, want %q", w.out.Text(), want)
	}
}

// goOn lets it log in.
func (w *python) goOn() { fmt.Fprintln(w.in) }

func (w *python) ends() {
	w.Helper()
	if err := w.cmd.Wait(); err != nil {
		w.Error(err)
	}
}

// onRedis are three proxies that share one Redis.
func onRedis(t *testing.T, site *loginsites.Site, recipe bool, server *redistest.Server) (*world.World, []*world.Proxy) {
	t.Helper()
	rules := loginRules()
	if recipe {
		rules = withRecipe(rules)
	}
	w := loginWorld(t, site, rules, func(o *world.Options) {
		o.Store = func(session.Store) session.Store { return redisStore(t, server) }
		o.Locks = redislock.New(server.Client(), "session:", patience)
	})
	return w, []*world.Proxy{w.Proxy, w.AddProxyOn(redisStore(t, server)), w.AddProxyOn(redisStore(t, server))}
}

// A worker that holds the lock logs in through the proxy, or by itself. It is
// waited for, and let through, whether clients would have a recipe log in or do
// so themselves.
func TestAnUnmodifiedPythonWorkerLogsIn(t *testing.T) {
	t.Parallel()
	for _, through := range []bool{true, false} {
		for _, recipe := range []bool{true, false} {
			t.Run(fmt.Sprintf("through the proxy %t, recipe %t", through, recipe), func(t *testing.T) {
				t.Parallel()
				server := redistest.Single(t)
				site := loginsites.New(loginsites.Options{})
				w, proxies := onRedis(t, site, recipe, server)
				var worker *python
				if through {
					ca := filepath.Join(t.TempDir(), "ca.pem")
					if err := os.WriteFile(ca, proxies[0].CA, 0o600); err != nil {
						t.Fatal(err)
					}
					worker = startWorker(t, server, "https://"+world.Host, "https_proxy=http://"+proxies[0].Addr, "SSL_CERT_FILE="+ca)
				} else {
					worker = startWorker(t, server, "http://"+w.Origin.Addr("80"), "http_proxy=")
				}
				worker.says("form")
				token := formToken(t, proxies[0], world.TunnelH1)
				forms := site.Forms()
				var wg sync.WaitGroup
				for i := range 6 {
					wg.Go(func() {
						if recipe {
							askHello(t, proxies[i%3], world.TunnelH1)
							return
						}
						// One may be the worker's own, if it logs in through the proxy.
						ask(t, proxies[i%3], world.TunnelH1, loginForm(t, world.TunnelH1, loginsites.Password, token))
						askHello(t, proxies[i%3], world.TunnelH1)
					})
				}
				if recipe {
					world.Eventually(t, "the clients are sent to the form", func() bool { return site.Forms() >= forms+6 })
					if site.Attempts() != 0 {
						t.Errorf("%d logins while the worker has the lock", site.Attempts())
					}
				}
				worker.goOn()
				worker.says("Hello alice")
				worker.ends()
				wg.Wait()
				// Clients that send the form themselves: one, whose guess it was.
				if most := map[bool]int{true: 1, false: 2}[recipe]; site.Logins() > most {
					t.Errorf("%d logins reached the site, want %d at most", site.Logins(), most)
				}
			})
		}
	}
}

// The reverse: a worker waits while a client logs in through the proxy, and then
// finds the session logged in.
func TestAnUnmodifiedPythonWorkerWaits(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	hold := make(chan struct{})
	site := loginsites.New(loginsites.Options{OnLogin: func(int) { <-hold }})
	w, proxies := onRedis(t, site, false, server)
	token := formToken(t, proxies[0], world.TunnelH1)
	var wg sync.WaitGroup
	wg.Go(func() { ask(t, proxies[0], world.TunnelH1, loginForm(t, world.TunnelH1, loginsites.Password, token)) })
	world.Eventually(t, "a login is under way", func() bool { return site.Logins() == 1 })
	worker := startWorker(t, server, "http://"+w.Origin.Addr("80"), "http_proxy=")
	worker.says("waits")
	close(hold)
	worker.says("Hello alice")
	worker.ends()
	wg.Wait()
	if site.Logins() != 1 {
		t.Errorf("%d logins reached the site, want the client's", site.Logins())
	}
}
