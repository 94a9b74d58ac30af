package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/freeport"
	"github.com/sessionproxy/sessionproxy/internal/shop"
)

// naming is how a client tells the proxy who it is.
type naming int

const (
	atOnce    naming = iota // with its first request, from PROXY
	whenAsked               // after a 407, from PROXY_USER and PROXY_PASSWORD
	never                   // by the port it is given
)

// clients are the snippets of docs/clients.md that ask the shop who they are,
// the slow ones first.
var clients = []struct {
	snippet string
	naming  naming
}{
	{"java-httpclient", whenAsked},
	{"java-httpurlconnection", whenAsked},
	{"selenium", never},
	{"playwright", whenAsked},
	{"puppeteer", whenAsked},
	{"scrapy", atOnce},
	{"go", atOnce},
	{"undici", atOnce},
	{"axios", whenAsked}, // at once, but from the variables of the others
	{"requests", atOnce},
	{"urllib", atOnce},
	{"lwp", atOnce},
	{"php-curl", atOnce},
	{"php-streams", atOnce},
	{"wget", atOnce},
	{"curl", atOnce},
}

// steps are the other snippets of docs/clients.md.
var steps = []string{"ca", "bundle", "nss", "login"}

// One client logs in; each other one is logged in, too, and is not in a session
// of its own: where anyone may come, and where the configuration names clients.
func TestEachClientReusesALoginByItsSnippet(t *testing.T) {
	snippets := readSnippets(t)
	anyone, named := newAnyone(t, snippets), newNamed(t, snippets)
	for _, c := range clients {
		t.Run(c.snippet, func(t *testing.T) {
			t.Parallel()
			p := snippets[c.snippet].prepare(t)
			wantAlice(t, "at a port that asks nobody", p, anyone.env, "PROXY=http://"+anyone.open)
			wantStranger(t, "in a session of its own", p, anyone.env, anyone.as(c.naming, "-session-qa1")...)
			if c.naming != never {
				wantAlice(t, "by its name", p, named.env, named.as(c.naming, "")...)
			}
			wantAlice(t, "at a port pinned to the client", p, named.env, "PROXY=http://"+named.pinned)
			wantStranger(t, "by its name, in a session of its own", p, named.env, named.as(c.naming, "-session-qa1")...)
		})
	}
}

// wantAlice runs the program and wants it to print whose login it has.
func wantAlice(t *testing.T, where string, p *program, env []string, more ...string) {
	t.Helper()
	stdout, stderr, err := p.run(t.Context(), env, more...)
	if err != nil || strings.TrimSpace(stdout) != `{"user":"alice"}` {
		t.Errorf(`%s: it printed %q (%v), want {"user":"alice"}; stderr: %s`, where, stdout, err, stderr)
	}
}

var notSignedIn = regexp.MustCompile(`not signed in|\b401\b|Authentication Failed`)

// wantStranger runs the program and wants it to tell of the shop's refusal, in
// its own words: many make an error of a 401.
func wantStranger(t *testing.T, where string, p *program, env []string, more ...string) {
	t.Helper()
	stdout, stderr, err := p.run(t.Context(), env, more...)
	if told := stdout + stderr; strings.Contains(told, `"alice"`) || !notSignedIn.MatchString(told) {
		t.Errorf("%s: it printed %q (%v), want a 401 or not signed in; stderr: %s", where, stdout, err, stderr)
	}
}

// front is a running proxy before the shop, with a login in its session.
type front struct {
	open, asking, pinned, qa1 string // ports by what they ask; qa1 is pinned to that session
	user, password            string
	env                       []string // of a program that trusts its CA and reads no other settings
}

// newAnyone is the demo: no clients are declared, so any name will do.
func newAnyone(t *testing.T, snippets map[string]snippet) *front {
	t.Helper()
	f := &front{asking: freeport.Addr(t), qa1: freeport.Addr(t), user: "anyone", password: "x"}
	i := start(t, "demo", "--listen", f.asking+",ask", "--listen", f.qa1+",session=qa1")
	f.open = i.proxy
	f.ready(t, snippets, filepath.Dir(caOf(t, i)), "ca", "PROXY=http://"+f.open)
	return f
}

// newNamed declares a client. Its password is one that a careless client would
// garble.
func newNamed(t *testing.T, snippets map[string]snippet) *front {
	t.Helper()
	site, err := shop.Start(t.Context(), shop.Options{Host: "shop.test", User: "alice", Password: "wonderland"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := site.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &front{pinned: freeport.Addr(t), qa1: freeport.Addr(t), user: "crawler", password: "se:cr@t %2F+"}
	dir := t.TempDir()
	config, ca, state := filepath.Join(dir, "sessionproxy.yaml"), filepath.Join(dir, "shop-ca.pem"), filepath.Join(dir, "state")
	write(t, ca, site.CAPEM())
	write(t, config, fmt.Appendf(nil, `clients:
  - {name: %s, password: %q}
sites:
  - name: shop
    hosts: [shop.test]
    origin: {ca: %s, resolve: {shop.test: %q}}
`, f.user, f.password, ca, site.Addr()))
	i := start(t, "serve", "--config", config, "--state", state,
		"--listen", f.pinned+",client=crawler", "--listen", f.qa1+",client=crawler,session=qa1")
	f.asking = i.proxy // by default, as there are clients
	f.ready(t, snippets, state, "bundle", f.as(atOnce, "")...)
	return f
}

// ready takes the steps that come before a client: the path of the CA, by the
// snippet named trust, Chromium's trust in it, and the login.
func (f *front) ready(t *testing.T, snippets map[string]snippet, state, trust string, login ...string) {
	t.Helper()
	step := func(s snippet, more ...string) string {
		t.Helper()
		stdout, stderr, err := s.prepare(t).run(t.Context(), f.env, more...)
		if err != nil {
			t.Fatalf("%s\n%v\n%s%s", s.text, err, stdout, stderr)
		}
		return stdout
	}
	f.env = []string{
		"PATH=" + filepath.Dir(binary) + string(os.PathListSeparator) + os.Getenv("PATH"),
		"HOME=" + t.TempDir(), "SESSIONPROXY_STATE=" + state, "CHROMIUM=" + headless(t),
	}
	ca := snippets[trust]
	ca.text += "printf %s \"$CA\"\n"
	f.env = append(f.env, "CA="+step(ca))
	step(snippets["nss"])
	if page := step(snippets["login"], login...); page != "" {
		t.Fatalf("the login was answered with a page, want a redirect:\n%s", page)
	}
}

// as returns the variables of a client that comes by name, with the selectors.
func (f *front) as(n naming, selectors string) []string {
	user := f.user + selectors
	switch n {
	case never:
		return []string{"PROXY=http://" + f.qa1}
	case whenAsked:
		return []string{"PROXY=http://" + f.asking, "PROXY_USER=" + user, "PROXY_PASSWORD=" + f.password}
	}
	addr := f.open // takes a name that is sent
	if addr == "" {
		addr = f.asking
	}
	return []string{"PROXY=" + (&url.URL{Scheme: "http", Host: addr, User: url.UserPassword(user, f.password)}).String()}
}

// headless is Chromium with what tests, which may be root's, add to the user's
// own arguments.
func headless(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "chromium")
	script := "#!/bin/sh\nexec " + chromium + ` --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
	--disable-background-networking --disable-component-update --disable-sync "$@"
`
	if err := os.WriteFile(file, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// snippet is a marked block of docs/clients.md.
type snippet struct{ language, text string }

var (
	markedBlock = regexp.MustCompile("(?ms)^<!-- test: (\\S+) -->\n```(\\w+)\n(.*?)^```$")
	codeFence   = regexp.MustCompile("(?m)^```(sh|python|perl|php|js|java|go)$")
)

// readSnippets returns the snippets by name. No code of the page goes unrun.
func readSnippets(t *testing.T) map[string]snippet {
	t.Helper()
	page, err := os.ReadFile("../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	snippets := map[string]snippet{}
	for _, m := range markedBlock.FindAllSubmatch(page, -1) {
		snippets[string(m[1])] = snippet{string(m[2]), string(m[3])}
	}
	known := slices.Clone(steps)
	for _, c := range clients {
		known = append(known, c.snippet)
	}
	slices.Sort(known)
	if got := slices.Sorted(maps.Keys(snippets)); !slices.Equal(got, known) {
		t.Fatalf("docs/clients.md has the snippets %q, want %q", got, known)
	}
	if fences := len(codeFence.FindAll(page, -1)); fences != len(snippets) {
		t.Fatalf("docs/clients.md has %d blocks of code, of which %d are marked to be run", fences, len(snippets))
	}
	return snippets
}

// languages says under which name a snippet is kept and how it is run. Debian's
// modules are those of /usr/bin/python3, which need not be the first in PATH.
var languages = map[string]struct {
	file       string
	build, run []string
}{
	"sh":     {"shop.sh", nil, []string{"bash", "-euo", "pipefail", "shop.sh"}},
	"python": {"shop.py", nil, []string{"/usr/bin/python3", "shop.py"}},
	"perl":   {"shop.pl", nil, []string{"perl", "shop.pl"}},
	"php":    {"shop.php", nil, []string{"php", "shop.php"}},
	"js":     {"shop.mjs", nil, []string{"node", "shop.mjs"}},
	"java":   {"Shop.java", []string{"javac", "Shop.java"}, []string{"java", "Shop"}},
	"go":     {"shop.go", []string{"go", "build", "-o", "shop", "shop.go"}, []string{"./shop"}},
}

// program is a snippet that is ready to run.
type program struct {
	dir     string
	command []string
}

// prepare writes the snippet into a directory of its own, with the modules of
// npm beside it, and compiles it where that is needed.
func (s snippet) prepare(t *testing.T) *program {
	t.Helper()
	dir, lang := t.TempDir(), languages[s.language]
	write(t, filepath.Join(dir, lang.file), []byte(s.text))
	modules, err := filepath.Abs("node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	if lang.build != nil {
		build := exec.CommandContext(t.Context(), lang.build[0], lang.build[1:]...)
		build.Dir = dir
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(lang.build, " "), err, out)
		}
	}
	return &program{dir, lang.run}
}

// run runs the program with env and more as its whole environment.
func (p *program) run(ctx context.Context, env []string, more ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("it did not end within a minute"))
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
	cmd.Dir, cmd.Env = p.dir, slices.Concat(env, more)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 5 * time.Second // a browser may hold the pipes
	err = cmd.Run()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return out.String(), errs.String(), err
}
