package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/trace"
)

func TestTraceShowsOneExchangeWhole(t *testing.T) {
	t.Parallel()
	w := newWhyWorld(t)
	w.as(t, "crawler", "w1", "GET", "https://shop.test/start")
	w.as(t, "crawler", "w1", "GET", "https://shop.test/rotate?q="+value)
	id := w.as(t, "crawler", "w1", "GET", "https://bank.test/"+strings.Repeat("x", 3))
	_, stdout, stderr := w.command(t, "trace", id)
	for _, want := range []string{
		`(?m)^exchange  ` + id + ` of 20\S+Z$`,
		`(?m)^request   GET https://bank\.test/xxx \(h1\)$`,
		`(?m)^client    crawler, worker w1$`,
		`(?m)^answer    403, refused, 66 B$`,
		`(?m)^refused   site_not_allowed: The proxy client crawler may not use the site bank\.$`,
	} {
		if !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("%q lacks %q\n%s", stdout, want, stderr)
		}
	}
	_, line, _ := w.command(t, "trace", "--last", "2", "--json")
	var e trace.Exchange
	if err := json.Unmarshal([]byte(strings.SplitN(line, "\n", 2)[0]), &e); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	_, stdout, _ = w.command(t, "trace", e.ID)
	t.Log("\n" + stdout)
	for _, want := range []string{
		`(?m)^request    *GET https://shop\.test/rotate \(h1\)$`,
		`(?m)^session    *default of shop, the default, since nothing selected another; as of 20\S+Z$`,
		`(?m)^time    *\S+: \S+ until the site's answer began, \S+ for its body, \S+ added`,
		`(?m)^COOKIE +FROM +SENT +WHY +SET BY +AT +REPLACED$`,
		`(?m)^admin +session +no +other path: it is for /admin and below +reply +20\S+Z +-$`,
		`(?m)^sid +session +yes +it is for shop\.test alone, / and below +reply +20\S+Z +20\S+Z$`,
		`(?m)^csrftoken +worker +yes +it is for shop\.test alone, / and below +reply +20\S+Z +-$`,
		`(?m)^SET-COOKIE +CAPTURED +WHY$`,
		`(?m)^sid +yes +captured: it is the session's$`,
	} {
		if !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("it lacks %q\n%s", want, stdout)
		}
	}
	if code, _, stderr := w.command(t, "trace", "none-1"); code != exitFailed || !strings.Contains(stderr, "remembers no such exchange: it keeps the last 1000, and another proxy's not at all.") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if code, _, stderr := w.command(t, "trace", "--outcome", "lost"); code != exitFailed || !strings.Contains(stderr, "one of [ok open refused failed broken client_gone client_tls]") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// Live, it begins with the last ones and goes on until Ctrl-C.
func TestTraceFollows(t *testing.T) {
	t.Parallel()
	w := newWhyWorld(t)
	w.as(t, "crawler", "before", "GET", "https://shop.test/start")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	read, write := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"trace", "--site", "shop", "--admin", w.admin, "--state", w.state}, noEnv, write, io.Discard)
		write.Close()
	}()
	seen := make(chan string, 100)
	go func() {
		defer close(seen)
		var all bytes.Buffer
		b := make([]byte, 4096)
		for {
			n, err := read.Read(b)
			all.Write(b[:n])
			if err != nil {
				return
			}
			seen <- all.String()
		}
	}()
	until := func(part string) {
		t.Helper()
		late := time.After(10 * time.Second)
		for last := ""; ; {
			select {
			case last = <-seen:
				if strings.Contains(last, part) {
					return
				}
			case <-late:
				t.Fatalf("%q never shows %q", last, part)
			}
		}
	}
	until("crawler/before")
	w.as(t, "crawler", "other", "GET", "https://bank.test/")
	w.as(t, "crawler", "after", "GET", "https://shop.test/")
	until("crawler/after")
	stop()
	if got := <-code; got != exitDone {
		t.Errorf("exit code %d", got)
	}
}

func TestExchangeLinesAreAlignedAndColoured(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.Local)
	exchanges := []trace.Exchange{
		{Time: at, ID: "a-1", Client: "crawler", Worker: "w1", Site: "shop", Session: "qa1", Mode: "h2", Method: "GET", Host: "shop.test", Port: "443", Path: "/", Status: 200, Outcome: trace.OK,
			Cookies: []trace.RequestCookie{{Name: "sid", From: "session", Sent: true}}, Times: trace.Times{Total: 12.34, Added: 0.4}},
		{Time: at, ID: "a-2", Worker: "10.0.0.7", Mode: "plain", Method: "DELETE", Host: "cdn.test", Port: "8080", Path: "/\x1b[2J", Status: 502, Outcome: trace.Failed,
			Refused: &trace.Refusal{Code: "origin_refused", Sentence: "cdn.test refused the connection."}, Error: "dial: refused", Times: trace.Times{Total: 90_000, Added: 1200}},
		{Time: at, ID: "a-3", Worker: "10.0.0.7", Mode: "tunnel", Method: "CONNECT", Host: "::1", Port: "22", Outcome: trace.Open},
		{Time: at, ID: "a-4", Worker: "10.0.0.7", Mode: "plain", Status: 400, Outcome: trace.Refused, Refused: &trace.Refusal{Code: "tls_wanted", Sentence: "This proxy port speaks TLS."}},
	}
	for _, tt := range []struct {
		color bool
		want  string
	}{
		{false, `TIME          OUTCOME  STATUS  METHOD   URL                                       CLIENT          SESSION         SENT  WITHHELD  CAPTURED  TOOK    ADDED   EXCHANGE
12:00:00.000  ok       200     GET      https://shop.test/                        crawler/w1      shop/qa1        1     -         -         12ms    0.4ms   a-1
12:00:00.000  failed   502     DELETE   "http://cdn.test:8080/\x1b[2J"            10.0.0.7        -               -     -         -         90s     1.2s    a-2
  origin_refused: cdn.test refused the connection.
  cause: dial: refused
12:00:00.000  open     -       CONNECT  [::1]:22                                  10.0.0.7        -               -     -         -         -       -       a-3
12:00:00.000  refused  400              -                                         10.0.0.7        -               -     -         -         0µs     0µs     a-4
  tls_wanted: This proxy port speaks TLS.
`},
		{true, "TIME          OUTCOME  STATUS  METHOD   URL                                       CLIENT          SESSION         SENT  WITHHELD  CAPTURED  TOOK    ADDED   EXCHANGE\n" +
			"12:00:00.000  \x1b[32mok\x1b[0m       200     GET      https://shop.test/                        crawler/w1      shop/qa1        1     -         -         12ms    0.4ms   \x1b[2ma-1\x1b[0m\n" +
			"12:00:00.000  \x1b[31mfailed\x1b[0m   502     DELETE   \"http://cdn.test:8080/\\x1b[2J\"            10.0.0.7        -               -     -         -         90s     1.2s    \x1b[2ma-2\x1b[0m\n" +
			"\x1b[2m  origin_refused: cdn.test refused the connection.\x1b[0m\n\x1b[2m  cause: dial: refused\x1b[0m\n" +
			"12:00:00.000  \x1b[32mopen\x1b[0m     -       CONNECT  [::1]:22                                  10.0.0.7        -               -     -         -         -       -       \x1b[2ma-3\x1b[0m\n" +
			"12:00:00.000  \x1b[33mrefused\x1b[0m  400              -                                         10.0.0.7        -               -     -         -         0µs     0µs     \x1b[2ma-4\x1b[0m\n" +
			"\x1b[2m  tls_wanted: This proxy port speaks TLS.\x1b[0m\n"},
	} {
		var b bytes.Buffer
		l := exchangeLines{w: &b, color: tt.color}
		for i := range exchanges {
			if err := l.print(&exchanges[i]); err != nil {
				t.Fatal(err)
			}
		}
		if b.String() != tt.want {
			t.Errorf("colour %t:\n%s\nwant\n%s", tt.color, &b, tt.want)
		}
	}
}
