package proxy_test

import (
	"bufio"
	"encoding/xml"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

// h2spec is a conformance suite for HTTP/2 servers. It is no part of this
// module: the go command fetches and builds it.
const h2spec = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"

// h2specOfHTTP are the cases that net/http's own server fails, here as
// anywhere, and why that is no harm.
var h2specOfHTTP = map[string]string{
	// h2spec sends 17 KiB, as if the server had announced nothing.
	"http2/4.2: Sends a large size HEADERS frame that exceeds the SETTINGS_MAX_FRAME_SIZE": "net/http announces frames of 1 MiB, and takes them",
	// RFC 9113 section 6.5.3 has them processed in their order.
	"http2/6.5.3: Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE": "net/http closes a connection whose SETTINGS name a parameter twice",

	"http2/8.1.2.2: Sends a HEADERS frame that contains the connection-specific header field":                       answered,
	"http2/8.1.2.2: Sends a HEADERS frame that contains the TE header field with any value other than \"trailers\"": answered,
}

// RFC 9113 section 8.1.1 has a malformed request be a stream error, and lets an
// answer be sent before it.
const answered = "net/http answers 400, and no handler sees the request"

// h2specRaces are failed at times, and why that is no harm.
var h2specRaces = map[string]string{
	"http2/8.1.2.6: Sends a HEADERS frame with the \"content-length\" header field which does not equal the DATA frame payload length": "an answer that is there before the body proves too long stands; what is too much goes nowhere",
	"http2/6.9.1: Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1 on a stream":                  "a response that is through by then leaves no stream whose window could be too large",
}

// The HTTP/2 of intercepted connections is that of net/http: what stands
// around it adds no fault.
func TestH2spec(t *testing.T) {
	t.Parallel()
	program := buildH2spec(t)
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	const host = "localhost" // h2spec's own resolver has to know it
	w := world.New(t, world.Options{Handler: page, Config: func(c *config.Config) {
		c.Sites = append(c.Sites, world.Site("spec", host))
	}})
	plain := httptest.NewUnstartedServer(page)
	plain.EnableHTTP2 = true
	plain.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	plain.StartTLS()
	t.Cleanup(plain.Close)

	var failed [2][]string
	var passed [2]int
	var runs sync.WaitGroup
	for i, addr := range []string{tunnelTo(t, w, host+":443"), plain.Listener.Addr().String()} {
		runs.Go(func() { failed[i], passed[i] = runH2spec(t, program, host, addr) })
	}
	runs.Wait()
	t.Logf("intercepted: %d passed, %d failed; net/http: %d passed, %d failed", passed[0], len(failed[0]), passed[1], len(failed[1]))
	for _, c := range failed[0] {
		if h2specOfHTTP[c] == "" && h2specRaces[c] == "" {
			t.Errorf("the proxy fails: %s", c)
		}
	}
	for c := range h2specOfHTTP {
		if !slices.Contains(failed[1], c) {
			t.Errorf("net/http does not fail any more: %s", c)
		}
	}
	if passed[0] < 130 {
		t.Errorf("%d cases passed, want 130 and more", passed[0])
	}
}

func buildH2spec(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "install", h2spec)
	cmd.Dir = dir // outside of any module
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go install %s: %v\n%s", h2spec, err, out)
	}
	return filepath.Join(dir, "h2spec")
}

// tunnelTo is an address each of whose connections leads through the proxy.
func tunnelTo(t *testing.T, w *world.World, target string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return // closed
			}
			open.Go(func() { splice(t, client, w.Addr, target) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		open.Wait()
	})
	return ln.Addr().String()
}

func splice(t *testing.T, client net.Conn, proxy, target string) {
	defer client.Close()
	server, err := net.Dial("tcp", proxy)
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Close()
	io.WriteString(server, "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n\r\n")
	r := bufio.NewReader(server)
	if a, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect}); err != nil || a.StatusCode != http.StatusOK {
		t.Errorf("CONNECT: %v, %v", a, err)
		return
	}
	done := make(chan struct{})
	go func() {
		io.Copy(server, client)
		server.Close()
		close(done)
	}()
	io.Copy(client, r)
	client.Close()
	<-done
}

// runH2spec returns the cases that failed, and how many passed.
func runH2spec(t *testing.T, program, host, addr string) (failed []string, passed int) {
	report := filepath.Join(t.TempDir(), "h2spec.xml")
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Error(err)
		return nil, 0
	}
	out, err := exec.CommandContext(t.Context(), program, "--tls", "--insecure", "--strict", "--timeout", "4",
		"--host", host, "--port", port, "--junit-report", report).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) { // 1: some failed
		t.Errorf("h2spec: %v\n%s", err, out)
		return nil, 0
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Error(err)
		return nil, 0
	}
	var suites struct {
		Suites []struct {
			Cases []struct {
				Package string `xml:"package,attr"`
				Name    string `xml:"classname,attr"`
				Failure *struct {
					Text string `xml:",chardata"`
				} `xml:"failure"`
				Error *struct {
					Text string `xml:",chardata"`
				} `xml:"error"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &suites); err != nil {
		t.Error(err)
		return nil, 0
	}
	for _, s := range suites.Suites {
		for _, c := range s.Cases {
			switch {
			case c.Failure != nil || c.Error != nil:
				failed = append(failed, c.Package+": "+c.Name)
			case c.Skipped == nil:
				passed++
			}
		}
	}
	return failed, passed
}
