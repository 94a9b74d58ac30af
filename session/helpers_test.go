package session

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// noon is when everything happens unless a test says otherwise.
var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// sharing is the default policy: all names but the built-in private ones.
var sharing = NewPolicy([]string{"*"}, nil, false)

// at is the store's clock at noon plus d.
func at(d time.Duration) int64 { return noon.Add(d).UnixMicro() }

func mustURL(tb testing.TB, raw string) *url.URL {
	tb.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

// setting is the request to rawURL as a response to it sets cookies.
func setting(tb testing.TB, rawURL string) Setting {
	tb.Helper()
	u := mustURL(tb, rawURL)
	host, ok := CanonicalHost(u.Hostname())
	if !ok {
		tb.Fatalf("no host in %s", rawURL)
	}
	return Setting{Host: host, Path: u.EscapedPath(), Secure: u.Scheme == "https"}
}

// request is the client's own request to rawURL at noon.
func request(tb testing.TB, rawURL string) Request {
	tb.Helper()
	s := setting(tb, rawURL)
	return Request{Host: s.Host, Path: s.Path, Secure: s.Secure, Now: noon}
}

// parse reads lines of a response from rawURL, and leaves out refused ones.
func parse(tb testing.TB, rawURL string, now time.Time, lines ...string) []Cookie {
	tb.Helper()
	var cookies []Cookie
	for _, line := range lines {
		if c, err := ParseSetCookie(line, setting(tb, rawURL), now); err == nil {
			cookies = append(cookies, c)
		}
	}
	return cookies
}

// mustParse reads lines that are not refused.
func mustParse(tb testing.TB, rawURL string, now time.Time, lines ...string) []Cookie {
	tb.Helper()
	cookies := parse(tb, rawURL, now, lines...)
	if len(cookies) != len(lines) {
		tb.Fatalf("%s: %d of %d Set-Cookie lines refused", rawURL, len(lines)-len(cookies), len(lines))
	}
	return cookies
}

// reply applies a response from rawURL that is late for nothing.
func (j *Jar) reply(tb testing.TB, rawURL string, lines ...string) *Jar {
	tb.Helper()
	next, _ := j.Apply(Update{
		Base:     j.Version(),
		Insecure: strings.HasPrefix(rawURL, "http:"),
		Cookies:  parse(tb, rawURL, noon, lines...),
	}, at(0))
	return next
}

// header is what the jar alone sends with the client's own request to rawURL.
func (j *Jar) header(tb testing.TB, rawURL string) string {
	tb.Helper()
	return Merge(nil, request(tb, rawURL), j, nil, sharing).Header
}

// pairs are the "name=value" of all cookies in the jar, expired ones included.
func (j *Jar) pairs() []string {
	var pairs []string
	for _, c := range j.Cookies() {
		pairs = append(pairs, c.Name+"="+c.Value)
	}
	return pairs
}

func equalJars(a, b *Jar) bool {
	return a.version == b.version && a.floor == b.floor && a.created.Equal(b.created) &&
		slices.Equal(a.cookies, b.cookies) && slices.Equal(a.marks, b.marks) && slices.Equal(a.revoked, b.revoked)
}
