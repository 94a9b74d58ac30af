package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/world"
)

// open is an origin that says who was let in, and lets those read it that the
// path names. It counts what it was asked for but for logins.
type open struct{ asked atomic.Int64 }

func (o *open) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/set") {
		login(w, r)
		return
	}
	o.asked.Add(1)
	h, origin := w.Header(), r.Header.Get("Origin")
	for part := range strings.SplitSeq(r.URL.Path, "/") {
		switch part {
		case "star":
			h.Set("Access-Control-Allow-Origin", "*")
		case "echo":
			h.Set("Access-Control-Allow-Origin", origin)
		case "both":
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Credentials", "true")
		case "who":
			h.Set("Set-Cookie", "who="+strings.NewReplacer("=", "-", "; ", "+").Replace(r.Header.Get("Cookie"))+"; Path=/")
		case "fickle":
			h.Set("Access-Control-Allow-Origin", "*")
			if r.Header.Get("Cookie") == "" {
				h.Set("Access-Control-Allow-Origin", origin)
				h.Set("Access-Control-Allow-Credentials", "true")
			}
		case "304":
			if r.Header.Get("Cookie") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
	}
	io.WriteString(w, r.Header.Get("Cookie"))
}

// A page of a subdomain reads what is open to everybody as everybody does: its
// script may have asked without credentials, and no field tells.
func TestAPageReadsNothingThatItsRequestCouldNotBring(t *testing.T) {
	t.Parallel()
	sister := []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Origin", "https://www.shop.test"}
	for _, tt := range []struct {
		name, method, path string
		fields             []string
		body               string
		reads              string // what comes back
		open               bool   // to the page
		asked              int64
		cors               string
	}{
		{"what is open to all", "GET", "/star", sister, "", "", true, 2, "asked again without the session"},
		{"what is open to its origin", "GET", "/echo", sister, "", "", true, 2, "asked again without the session"},
		{"what is open to its origin with credentials", "GET", "/both", sister, "", "sid=a1", true, 1, ""},
		{"what is open to nobody", "GET", "/", sister, "", "sid=a1", false, 1, ""},
		{"the head of what is open to all", "HEAD", "/star", sister, "", "", true, 2, "asked again without the session"},
		{"what it has in its cache", "GET", "/304", append(sister, "If-None-Match", `"1"`), "", "", false, 2, "asked again without the session"},
		{"what comes of a POST", "POST", "/star", sister, "", "sid=a1", false, 1, "closed to the page"},
		{"what comes of a GET with a body", "GET", "/star", sister, "x", "sid=a1", false, 1, "closed to the page"},
		{"a POST that it may read with credentials", "POST", "/both", sister, "x", "sid=a1", true, 1, ""},
		{"an image of its own host's", "GET", "/star", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, "", "sid=a1", true, 1, ""},
		{"its own origin", "GET", "/star", []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors", "Origin", "https://shop.test"}, "", "sid=a1", true, 1, ""},
		{"a request with a cookie of its own", "GET", "/star", append(sister, "Cookie", "lang=de"), "", "lang=de; sid=a1", true, 1, ""},
		{"a scraper with an Origin", "GET", "/star", []string{"Origin", "https://www.shop.test"}, "", "sid=a1", true, 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var o open
			w := world.New(t, world.Options{Handler: &o})
			w.Get(t, world.TunnelH1, set("sid=a1; Path=/"))
			for _, via := range []world.Way{world.TunnelH1, world.TunnelH2, world.TunnelH2H1} {
				before := o.asked.Load()
				var body io.Reader
				if tt.body != "" {
					body = strings.NewReader(tt.body)
				}
				a := world.Do(t, w.Client(via), world.Request(t, tt.method, via.URL(tt.path+"?"+via.Name), body, tt.fields...))
				if a.StatusCode != 200 || tt.method != "HEAD" && a.Text != tt.reads {
					t.Errorf("%s: %d %q, want %q", via.Name, a.StatusCode, a.Text, tt.reads)
				}
				if open := a.Header.Get("Access-Control-Allow-Origin") != ""; open != tt.open {
					t.Errorf("%s: open to the page: %t", via.Name, open)
				}
				if n := o.asked.Load() - before; n != tt.asked {
					t.Errorf("%s: the origin was asked %d times, want %d", via.Name, n, tt.asked)
				}
				if tt.cors != "" {
					w.WantRecord(t, "exchange", "mode", via.Mode(), "method", tt.method, "cors", tt.cors)
				}
			}
		})
	}
}

// On plain http a browser that is known as one is judged by its Origin.
func TestAPageOnPlainHTTPReadsNoMoreEither(t *testing.T) {
	t.Parallel()
	var o open
	w := world.New(t, world.Options{Handler: &o})
	w.Get(t, world.Plain, set("sid=a1; Path=/"))
	w.Get(t, world.TunnelH1, "/", "User-Agent", "Browser/1", "Sec-Fetch-Site", "none")
	get := func(origin string) *world.Answer {
		return w.Get(t, world.Plain, "/star", "User-Agent", "Browser/1", "Origin", origin, "Referer", origin+"/")
	}
	wantCookie(t, get("http://www.shop.test"), "")
	wantCookie(t, get("http://shop.test"), "sid=a1")
}

// The first request was the session's, and what it was answered counts; the
// second was nobody's.
func TestAnAnonymousAnswerChangesNoSession(t *testing.T) {
	t.Parallel()
	var o open
	w := world.New(t, world.Options{Handler: &o})
	for _, via := range []world.Way{world.TunnelH1, world.TunnelH2} {
		w.Get(t, via, set("sid=a1; Path=/", "who=; Max-Age=0; Path=/"))
		conns := w.Origin.Accepted()
		a := w.Get(t, via, "/who/star?"+via.Name, "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Origin", "https://www.shop.test")
		wantCookie(t, a, "")
		if got := a.Header["Set-Cookie"]; len(got) != 1 || got[0] != "who=sid-a1; Path=/" {
			t.Errorf("the browser was given %q", got)
		}
		if n := w.Origin.Accepted() - conns; n > 0 {
			t.Errorf("%s: asking again took %d more connections", via.Name, n)
		}
		wantCookie(t, w.GetAs(t, via, world.User{Name: "ben"}, "/"), "sid=a1; who=sid-a1")
	}
}

// An origin that opens itself to other pages when the session asks.
func TestAFickleOriginShowsNoMore(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: new(open)})
	for _, via := range []world.Way{world.TunnelH1, world.TunnelH2H1} {
		w.Get(t, via, set("sid=a1; Path=/"))
		for range 3 {
			wantCookie(t, w.Get(t, via, "/fickle", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Origin", "https://www.shop.test"), "")
		}
	}
}

// What is known to be for everybody is asked for once, until that changes.
func TestWhatIsOpenToAllIsAskedForOnce(t *testing.T) {
	t.Parallel()
	for _, via := range []world.Way{world.TunnelH1, world.TunnelH2} {
		var asked, both, status atomic.Int64
		status.Store(200)
		w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if both.Load() > 0 {
				w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
				w.Header().Set("Access-Control-Allow-Credentials", "true")
			} else {
				w.Header().Set("Access-Control-Allow-Origin", "*")
			}
			if !strings.HasPrefix(r.URL.Path, "/set") {
				w.WriteHeader(int(status.Load()))
			}
			login(w, r)
		})})
		w.Get(t, via, set("sid=a1; Path=/"))
		want := func(why, sent string, times int64) {
			t.Helper()
			before := asked.Load()
			a := w.Get(t, via, "/", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Origin", "https://www.shop.test")
			if n := asked.Load() - before; a.Text != sent || n != times {
				t.Errorf("%s, %s: the page reads %q after %d requests, want %q after %d", via.Name, why, a.Text, n, sent, times)
			}
		}
		status.Store(500)
		want("an error", "", 2)
		status.Store(200)
		want("after an error", "", 2)
		want("once more", "", 1)
		both.Store(1)
		want("now for those with credentials", "sid=a1", 2)
		w.WantRecord(t, "exchange", "cors", "asked again with the session", "injected", 1)
		want("still for those", "sid=a1", 1)
	}
}

// Once a preflight has let a request through without credentials only, it
// leaves without the session, so that its answer need not be hidden.
func TestWhatFollowsAPreflightIsAnonymous(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		preflight, asked string // paths
		method           string // asked for in the preflight
		sent             string
		open             bool
	}{
		{"a star", "/star?a=1", "/star?a=1", "PUT", "", true},
		{"the origin, without credentials", "/echo", "/echo", "PUT", "", true},
		{"the origin, with credentials", "/both", "/both", "PUT", "sid=a1", true},
		{"nobody", "/", "/", "PUT", "sid=a1", false},
		{"another URL", "/star?a=1", "/star?a=2", "PUT", "sid=a1", false},
		{"another method", "/star", "/star", "DELETE", "sid=a1", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var o open
			w := world.New(t, world.Options{Handler: &o})
			w.Get(t, world.TunnelH1, set("sid=a1; Path=/"))
			for _, via := range []world.Way{world.TunnelH1, world.TunnelH2} {
				ask := func(method, path string, fields ...string) *world.Answer {
					return world.Do(t, w.Client(via), world.Request(t, method, via.URL(path), nil,
						append(fields, "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Origin", "https://www.shop.test")...))
				}
				ask("OPTIONS", tt.preflight, "Access-Control-Request-Method", tt.method)
				a := ask("PUT", tt.asked)
				wantCookie(t, a, tt.sent)
				if open := a.Header.Get("Access-Control-Allow-Origin") != ""; open != tt.open {
					t.Errorf("%s: open to the page: %t", via.Name, open)
				}
			}
		})
	}
}

// The last preflight counts.
func TestAPreflightThatChangesItsMind(t *testing.T) {
	t.Parallel()
	var allow atomic.Value
	allow.Store("*")
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", allow.Load().(string))
		w.Header().Set("Access-Control-Allow-Credentials", "true")
		login(w, r)
	})})
	ask := func(method string, fields ...string) *world.Answer {
		return world.Do(t, w.Client(world.TunnelH1), world.Request(t, method, world.TunnelH1.URL("/"), nil,
			append(fields, "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Origin", "https://www.shop.test")...))
	}
	w.Get(t, world.TunnelH1, set("sid=a1; Path=/"))
	ask("OPTIONS", "Access-Control-Request-Method", "PUT")
	wantCookie(t, ask("PUT"), "")
	allow.Store("https://www.shop.test")
	ask("OPTIONS", "Access-Control-Request-Method", "PUT")
	wantCookie(t, ask("PUT"), "sid=a1")
}
