package soak

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
	"github.com/sessionproxy/sessionproxy/certs"
	"github.com/sessionproxy/sessionproxy/internal/freeport"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

const (
	sites    = 200
	sessions = 25 // of each
	exits    = 20
	room     = 100 // leases of each exit
)

// The sites' kinds, by number: a quarter each is plain, leaves by the pool, has
// forms with captchas, and logs in by a recipe.
const (
	plain = iota
	pooled
	guarded
	recipe
	kinds
)

func host(site int) string { return fmt.Sprintf("s%03d.test", site) }

func who(site, id int) string { return fmt.Sprintf("%s/q%d", host(site), id) }

// group is the proxies, and what they share.
type group struct {
	t       *testing.T
	dir     string
	file    string // the configuration
	redis   *redistest.Group
	exits   []*world.Upstream
	solver  *captchatest.Service
	proxies []*process
}

// newGroup starts n proxies before the origin.
func newGroup(t *testing.T, o *origin, n int) *group {
	g := &group{t: t, dir: t.TempDir()}
	g.redis = redistest.Sentinel(t, redistest.Conf("min-replicas-to-write 1", "min-replicas-max-lag 5", "maxclients 10000"))
	for i := range exits {
		g.exits = append(g.exits, world.NewUpstream(t, world.UpstreamOptions{From: fmt.Sprintf("127.0.9.%d", i+1)}))
	}
	g.solver = captchatest.New(captchatest.Options{
		Key: strings.Repeat("k", 32), Threads: 20, Verifier: o.verifier,
		Outcome: func(captchatest.Task) captchatest.Outcome { return captchatest.Outcome{After: time.Second} },
	})
	solver := httptest.NewServer(g.solver)
	t.Cleanup(solver.Close)

	ca := filepath.Join(g.dir, "ca")
	if err := os.Mkdir(ca, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := certs.Open(ca, nil); err != nil {
		t.Fatal(err)
	}
	g.file = filepath.Join(g.dir, "sessionproxy.yaml")
	g.write("origin.pem", o.ca)
	g.write("sessionproxy.yaml", g.config(o.Listener.Addr().String(), solver.URL))
	binary := filepath.Join(g.dir, "sessionproxy")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/sessionproxy").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for i := range n {
		p := &process{
			t: t, name: fmt.Sprint("proxy ", i+1), addr: freeport.Addr(t), ops: freeport.Addr(t), log: new(tail),
			args: []string{binary, "serve", "--config", g.file, "--state", filepath.Join(g.dir, fmt.Sprint("state", i+1))},
		}
		p.args = append(p.args, "--listen", p.addr, "--admin", freeport.Addr(t), "--ops", p.ops)
		g.proxies = append(g.proxies, p)
		p.start()
		t.Cleanup(func() { p.signal(syscall.SIGKILL) })
	}
	for _, p := range g.proxies {
		p.wait(t.Context(), "ready")
	}
	return g
}

func (g *group) write(name string, text []byte) {
	if err := os.WriteFile(filepath.Join(g.dir, name), text, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *group) config(origin, solver string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `ca: {cert: ca/ca.pem, key: ca/ca.key}
audit: {to: audit.jsonl}
store: {url: %q}
captchaai: {key: %s, url: %q}
clients: [{name: soak, password: soak}]
upstreams:
  exits: {capacity: %d, idle: 5s, wait: 45s, proxies: [`, g.redis.URL(), strings.Repeat("k", 32), solver, room)
	for _, e := range g.exits {
		fmt.Fprintf(&b, "%q, ", e.URL)
	}
	b.WriteString("]}\nsites:\n")
	for s := range sites {
		fmt.Fprintf(&b, "  - name: s%03d\n    hosts: [%s]\n    origin: {ca: origin.pem, resolve: {%[2]s: %[3]q}}\n", s, host(s), origin)
		switch s % kinds {
		case pooled:
			b.WriteString("    upstream: exits\n")
		case guarded:
			fmt.Fprintf(&b, "    captcha: [{type: recaptcha_v2, path: /contact, sitekey: %s, page: \"https://%s/page\", budget: {per_hour: 3600}}]\n", siteKey, host(s))
		case recipe:
			b.WriteString(`    affinity: worker
    login:
      request: {path: /login}
      logged_out: {redirect: "*/login*"}
      recipe: [{get: /login, take: {csrf: "input[name=csrf]"}}, {post: /login, form: {user: "{user}", password: "{password}", csrf: "{csrf}"}}]
      accounts: [`)
			for id := range sessions {
				fmt.Fprintf(&b, `{id: q%d, user: %s, password: "${SOAK_PASSWORD}"}, `, id, who(s, id))
			}
			b.WriteString("]\n")
		}
	}
	return b.Bytes()
}

// process is one proxy.
type process struct {
	t         *testing.T
	name      string
	addr, ops string
	args      []string
	log       *tail
	cmd       *exec.Cmd
	gone      chan struct{} // closed once cmd has ended
}

func (p *process) start() {
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.Env = append(os.Environ(), "SOAK_PASSWORD=soak", "SSL_CERT_FILE=", "SSL_CERT_DIR=")
	p.cmd.Stdout, p.cmd.Stderr = io.Discard, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	gone := make(chan struct{})
	p.gone = gone
	go func() {
		_ = p.cmd.Wait()
		close(gone)
	}()
}

// signal sends a signal; where that is the end of it, it has ended on return.
func (p *process) signal(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s)
	if s == syscall.SIGKILL {
		<-p.gone
	}
}

// wait waits until /readyz says one of the words.
func (p *process) wait(ctx context.Context, words ...string) {
	p.t.Helper()
	said := ""
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		select {
		case <-p.gone:
			p.t.Fatalf("%s ended:\n%s", p.name, p.log)
		default:
		}
		said = strings.TrimSpace(string(p.get("/readyz")))
		for _, w := range words {
			if said == w {
				return
			}
		}
	}
	p.t.Fatalf("%s says %q after a minute, want %q:\n%s", p.name, said, words, p.log)
}

func (p *process) get(path string) []byte {
	c := http.Client{Timeout: 5 * time.Second}
	resp, err := c.Get("http://" + p.ops + path)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return b
}

// gauges are the metrics without labels that the process gives of itself.
func (p *process) gauges() map[string]float64 {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, _ := parser.TextToMetricFamilies(bytes.NewReader(p.get("/metrics")))
	all := map[string]float64{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			if len(m.GetLabel()) == 0 {
				all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return all
}
