package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/internal/freeport"
	"github.com/sessionproxy/sessionproxy/proxy/admin"
)

// sitting plays answers to somebody who watches, and leaves after the last.
func sitting(t *testing.T, a *api, answers ...string) (string, error) {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), time.Minute)
	defer leave()
	var out bytes.Buffer
	c := &cobra.Command{}
	c.SetContext(ctx)
	c.SetOut(&out)
	err := watch(a, c, time.Millisecond, func() ([]byte, error) {
		if len(answers) == 0 {
			leave()
			return nil, ctx.Err()
		}
		answer := answers[0]
		answers = answers[1:]
		if answer == "" {
			return nil, &admin.Problem{Status: 404, Code: "unknown_session"}
		}
		return []byte(answer), nil
	}, view[admin.SessionDetail]{showSession, cookieLines})
	return out.String(), err
}

const (
	watched1 = `{"site":"shop","session":"qa1","state":"live","last_use":{"at":"2026-12-01T12:00:00Z","client":"crawler","worker":"w1"},"cookies":[{"name":"sid","value_bytes":8,"domain":"shop.test","path":"/","secure":true,"writer":"reply","version":1764590400000000}]}`
	watched2 = `{"site":"shop","session":"qa1","state":"live","last_use":{"at":"2026-12-01T12:00:09Z","client":"crawler","worker":"w1"},"cookies":[{"name":"sid","value_bytes":8,"domain":"shop.test","path":"/","secure":true,"writer":"reply","version":1764590400000000}]}`
	watched3 = `{"site":"shop","session":"qa1","state":"live","last_use":{"at":"2026-12-01T12:00:09Z","client":"crawler","worker":"w2"},"cookies":[{"name":"","value_bytes":8,"domain":"shop.test","host_only":true,"path":"/","writer":"import","version":1764590500000000}]}`
	watched4 = `{"site":"shop","session":"qa1","state":"revoked","revoked":"2026-12-01T12:00:10Z","cookies":[]}`
)

// Where nobody redraws, each change is a line, and what did not change is none.
func TestWatchPrintsChanges(t *testing.T) {
	out, err := sitting(t, new(api), "", watched1, watched2, watched2, watched3, watched4)
	if err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`(?m)^\S+ `).ReplaceAllString(out, "")
	want := `cookie sid of .shop.test/: set by reply at 2025-12-01T12:00:00Z, 8 B, Secure
session qa1: live, 1 cookie, used by crawler/w1
cookie sid of .shop.test/: gone
cookie (nameless) of shop.test/: set by import at 2025-12-01T12:01:40Z, 8 B, -
session qa1: live, 1 cookie, used by crawler/w2
cookie (nameless) of shop.test/: gone
session qa1: revoked, no cookies
`
	if got != want {
		t.Errorf("printed\n%swant\n%s", got, want)
	}
}

func TestWatchPrintsEachNewAnswerForJSON(t *testing.T) {
	out, err := sitting(t, &api{json: true}, watched1, watched1, watched4)
	if want := watched1 + "\n" + watched4 + "\n"; err != nil || out != want {
		t.Errorf("%v, printed\n%swant\n%s", err, out, want)
	}
}

func TestRedraw(t *testing.T) {
	var b bytes.Buffer
	show := redraw(&b, view[admin.SessionDetail]{showSession, cookieLines})
	for _, answer := range []string{"{}", watched1, watched4} {
		b.Reset()
		if err := show([]byte(answer)); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(b.String(), "\x1b[H\x1b[2J") || !strings.Contains(b.String(), "session") || strings.Contains(b.String(), "no such session") != (answer == "{}") {
			t.Errorf("%q", &b)
		}
	}
	if got := b.String(); strings.Contains(got, "sid") || !strings.Contains(got, "revoked") {
		t.Errorf("%q", got)
	}
}

// What is wrong with the proxy ends it.
func TestWatchEndsWithTheProxy(t *testing.T) {
	code, stdout, stderr := sessionproxy(t.Context(), "sessions", "list", "--watch", "--admin", freeport.Addr(t), "--token", "x")
	if code != exitFailed || stdout != "" || !strings.Contains(stderr, "connection refused") {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
}
