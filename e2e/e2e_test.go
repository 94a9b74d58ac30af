// Package e2e_test runs the real binary with real clients: curl, and Chromium
// by Playwright.
package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	binary   string // sessionproxy, built with the race detector
	chromium string // the system's
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		for _, tool := range []string{"curl", "node", "certutil", "bash", "chromium"} {
			var err error
			if chromium, err = exec.LookPath(tool); err != nil { // the last one stays
				fmt.Fprintf(os.Stderr, "e2e: %s is missing; .ci/test installs it\n", tool)
				return 1
			}
		}
		if _, err := os.Stat("node_modules/playwright-core"); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: node_modules is missing; run npm ci in e2e, or .ci/test")
			return 1
		}
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
	i := &instance{proxy: freeAddr(t), admin: freeAddr(t), ops: freeAddr(t), stdout: new(buffer), stderr: new(buffer)}
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

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
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
