// Package e2e_test runs the real binary with real clients: browsers, and the
// HTTP clients of several languages.
package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/freeport"
)

var (
	binary   string // sessionproxy, built with the race detector
	chromium string // the system's
)

// tools are the programs that the tests run.
var tools = []string{
	"bash", "certutil", "chromedriver", "chromium", "curl", "git", "java", "javac", "node", "npm",
	"perl", "php", "python3", "/usr/bin/python3", "redis-server", "ruby", "wget",
}

// modules are what the tests use of the languages' own libraries, each with a
// command that succeeds where it is there.
var modules = []struct {
	name    string
	command []string
}{
	{"Node 20.18 or later (Debian 12 has 18)", []string{"node", "-e", "const [major, minor] = process.versions.node.split('.'); process.exit(major > 20 || major == 20 && minor >= 18 ? 0 : 1)"}},
	{"Python's requests", []string{"/usr/bin/python3", "-c", "import requests"}},
	{"Python's redis", []string{"/usr/bin/python3", "-c", "import redis"}},
	{"Python's scrapy", []string{"/usr/bin/python3", "-c", "import scrapy"}},
	{"Python's selenium", []string{"/usr/bin/python3", "-c", "import selenium"}},
	{"yt-dlp", []string{"/usr/bin/python3", "-c", "import yt_dlp"}},
	{"Perl's LWP::Protocol::https", []string{"perl", "-MLWP::Protocol::https", "-e", "1"}},
	{"PHP's curl", []string{"php", "-r", "exit(extension_loaded('curl') ? 0 : 1);"}},
	{"the packages of package-lock.json (npm ci)", []string{"npm", "ls", "--all"}},
}

// missing names what the tests need and this machine has not.
func missing() []string {
	var names []string
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			names = append(names, tool)
		}
	}
	for _, m := range modules {
		if exec.Command(m.command[0], m.command[1:]...).Run() != nil {
			names = append(names, m.name)
		}
	}
	return names
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if names := missing(); len(names) > 0 {
			fmt.Fprintf(os.Stderr, "e2e: missing: %s; .ci/test installs them\n", strings.Join(names, ", "))
			return 1
		}
		chromium, _ = exec.LookPath("chromium") // it is there
		dir, err := os.MkdirTemp("", "e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "sessionproxy")
		if out, err := exec.Command("go", "build", "-race", "-o", binary, "../cmd/sessionproxy").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// sources looks at the files of the program, which a command builds: go test
// would take a result from its cache though they have changed. It notes what is
// looked at while a test runs.
var sources = sync.OnceValue(func() (err error) {
	for _, dir := range []string{"../captcha", "../cmd", "../certs", "../internal", "../proxy", "../session"} {
		err = errors.Join(err, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				_, err = os.Stat(path)
			}
			return err
		}))
	}
	return err
})

// instance is one running sessionproxy.
type instance struct {
	cmd               *exec.Cmd
	proxy, admin, ops string // host:port
	stdout, stderr    *buffer
}

// start runs a command of sessionproxy on free ports, and waits until it is
// ready.
func start(t *testing.T, args ...string) *instance {
	t.Helper()
	if err := sources(); err != nil {
		t.Fatal(err)
	}
	i := &instance{proxy: freeport.Addr(t), admin: freeport.Addr(t), ops: freeport.Addr(t), stdout: new(buffer), stderr: new(buffer)}
	i.cmd = exec.Command(binary, append([]string{args[0], "--listen", i.proxy}, args[1:]...)...)
	i.cmd.Args = append(i.cmd.Args, "--admin", i.admin, "--ops", i.ops)
	i.cmd.Dir = t.TempDir()
	i.cmd.Stdout, i.cmd.Stderr = i.stdout, i.stderr
	if err := i.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		i.stop(t, syscall.SIGTERM)
		if t.Failed() {
			t.Logf("stdout:\n%s\nstderr:\n%s", i.stdout, i.stderr)
		}
		if strings.Contains(i.stderr.String(), "DATA RACE") {
			t.Errorf("data race:\n%s", i.stderr)
		}
	})
	waitUntil(t, "ready", func() bool {
		resp, err := http.Get("http://" + i.ops + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return i
}

// stop sends sig and waits for the end.
func (i *instance) stop(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if i.cmd.ProcessState != nil {
		return
	}
	if err := i.cmd.Process.Signal(sig); err != nil {
		t.Errorf("signal: %v", err)
	}
	err := i.cmd.Wait()
	if sig == syscall.SIGTERM && err != nil {
		t.Errorf("stopped by SIGTERM: %v, want exit code 0", err)
	}
}

func waitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("not %s in time", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// output runs a command and returns what it wrote to stdout.
func output(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// trustingHome makes a home directory whose Chromium trusts the CA.
func trustingHome(t *testing.T, ca string) string {
	t.Helper()
	home := t.TempDir()
	nss := filepath.Join(home, ".pki", "nssdb")
	if err := os.MkdirAll(nss, 0o700); err != nil {
		t.Fatal(err)
	}
	output(t, nil, "certutil", "-d", "sql:"+nss, "-N", "--empty-password")
	output(t, nil, "certutil", "-d", "sql:"+nss, "-A", "-t", "C,,", "-n", "sessionproxy", "-i", ca)
	return home
}

// curl runs curl, which also fails where the server refused it.
func curl(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "curl", args...).Output()
	return string(out), err
}

// buffer is a bytes.Buffer that a process fills while a test reads.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
