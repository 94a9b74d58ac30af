package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// chromiumCase is a line of session/testdata/sent.jsonl: the page At answers
// with the Set-Cookie lines Set; of what it stored then, Chromium sends each
// URL the Cookie header Sent.
type chromiumCase struct {
	ID   string            `json:"id"`
	At   string            `json:"at"`
	Set  []string          `json:"set"`
	Sent map[string]string `json:"sent"`
}

// otherOrder is the RFC's order of equal paths where Chromium's differs: there
// a cookie loses its place when its value changes (RFC 6265bis section 5.7
// keeps the creation time). Either is right.
var otherOrder = map[string]string{"order-update-keeps-age": "a=3; b=2"}

// What a session sends for a client without any cookie is what Chromium would
// send, had it made the same visits. Each case is a session of its own.
func TestTheProxySendsWhatChromiumSends(t *testing.T) {
	cases := chromiumCases(t)
	o := newOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := cases[r.Header.Get("X-Case")]; ok {
			w.Header()["Set-Cookie"] = c.Set
		}
		io.WriteString(w, strings.Join(r.Header["Cookie"], "; "))
	}))
	dir := t.TempDir()
	config, state := filepath.Join(dir, "sessionproxy.yaml"), filepath.Join(dir, "state")
	write(t, config, []byte(conformanceConfig(t, cases, o)))
	i := start(t, "serve", "--config", config, "--state", state)

	client := trusting(t, i, state)
	defer client.CloseIdleConnections()
	client.Transport.(*http.Transport).Proxy = func(r *http.Request) (*url.URL, error) {
		session := r.Context().Value(sessionOf{}).(string)
		return &url.URL{Scheme: "http", Host: i.proxy, User: url.UserPassword("c-session-"+session, "")}, nil
	}
	for id, c := range cases {
		t.Run(id, func(t *testing.T) {
			answer := http.StatusOK
			if slices.ContainsFunc(c.Set, refusedByEngine) {
				answer = http.StatusBadGateway
			}
			visit(t, client, c.At, id, id, answer)
			for to, want := range c.Sent {
				if got := visit(t, client, to, id, "", http.StatusOK); got != want && got != otherOrder[id] {
					t.Errorf("%q set by %s, sent to %s: Cookie %q, want %q", c.Set, c.At, to, got, want)
				}
			}
		})
	}
}

// refusedByEngine says whether net/http refuses the line, and so the response:
// no field holds control characters but the tab (RFC 9110 section 5.5).
// Chromium stores no such cookie either.
func refusedByEngine(line string) bool {
	return strings.ContainsFunc(line, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// sessionOf is the context key of the session that a request selects.
type sessionOf struct{}

// visit opens a page in a session and returns the Cookie header that the origin
// saw. The origin answers with the cookies of the case set, if any.
func visit(t *testing.T, c *http.Client, to, session, set string, status int) string {
	t.Helper()
	r, err := http.NewRequestWithContext(context.WithValue(t.Context(), sessionOf{}, session), http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	if set != "" {
		r.Header.Set("X-Case", set)
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Fatalf("GET %s: %s, %v, want %d\n%s", to, resp.Status, err, status, body)
	}
	return string(body)
}

// chromiumCases returns the cases by ID.
func chromiumCases(t *testing.T) map[string]chromiumCase {
	t.Helper()
	f, err := os.Open("../session/testdata/sent.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cases := map[string]chromiumCase{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var c chromiumCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		cases[c.ID] = c
	}
	if err := lines.Err(); err != nil || len(cases) < 239 {
		t.Fatalf("%d cases, want 239 at least: %v", len(cases), err)
	}
	return cases
}

// conformanceConfig declares the hosts of all cases, each port at the origin's
// port of its scheme.
func conformanceConfig(t *testing.T, cases map[string]chromiumCase, o *origin) string {
	t.Helper()
	var hosts []string
	resolve := map[string]string{}
	add := func(raw string) {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		at := o.plain
		if u.Scheme == "https" {
			at = o.tls
		}
		host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
		hosts = append(hosts, fmt.Sprintf("%q", host))
		resolve[host+":"+u.Port()] = at
	}
	for _, c := range cases {
		add(c.At)
		for to := range c.Sent {
			add(to)
		}
	}
	slices.Sort(hosts)
	places, err := json.Marshal(resolve) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sites:\n  - name: chromium\n    hosts: [%s]\n    origin: {ca: %s, resolve: %s}\n",
		strings.Join(slices.Compact(hosts), ", "), o.ca, places)
}
