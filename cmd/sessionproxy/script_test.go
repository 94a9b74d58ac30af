package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
	"github.com/sessionproxy/sessionproxy/certs"
	"github.com/sessionproxy/sessionproxy/internal/freeport"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sessionproxy": main})
}

// TestScripts runs testdata/script. A script finds a state directory with a CA
// in $WORK/state, and free addresses in PROXY, ASKING, ADMIN and OPS.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			for _, name := range []string{"PROXY", "ASKING", "ADMIN", "OPS"} {
				env.Setenv(name, freeport.Addr(t))
			}
			_, err := certs.Open(filepath.Join(env.WorkDir, "state"), nil)
			return err
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":  exits,
			"ready":  ready,
			"listed": upstreamListed,
			"solver": solver,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// exits CODE PROGRAM [ARG...] runs a program that has to end with that code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		got = e.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// solver starts a service that solves captchas at once. Its URL is in SOLVER.
func solver(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: solver")
	}
	service := httptest.NewServer(captchatest.New(captchatest.Options{
		Key: "0123456789abcdef0123456789abcdef", Threads: 5,
		Outcome: func(captchatest.Task) captchatest.Outcome { return captchatest.Outcome{} },
	}))
	ts.Defer(service.Close)
	ts.Setenv("SOLVER", service.URL)
}

// ready waits until the proxy whose ops port is OPS serves.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: ready")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ts.Getenv("OPS")+"/readyz", nil)
		ts.Check(err)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("not ready in time: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// upstreamListed WORD waits until "upstreams list" shows the word.
func upstreamListed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listed WORD")
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		ts.Check(ts.Exec("sessionproxy", "upstreams", "list"))
		if strings.Contains(ts.ReadFile("stdout"), args[0]) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("upstreams list never shows %s", args[0])
		}
	}
}
