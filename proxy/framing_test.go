package proxy_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/world"
)

func TestAnswersArriveAsTheyWereSent(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		switch r.URL.Path {
		case "/length":
			h.Set("Content-Length", "5")
			io.WriteString(w, "hello")
		case "/chunked":
			w.(http.Flusher).Flush()
			io.WriteString(w, "hello")
		case "/empty":
			h.Set("Content-Length", "0")
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			h.Set("Etag", `"v1"`)
			w.WriteHeader(http.StatusNotModified)
		case "/untyped":
			h["Content-Type"] = nil
			io.WriteString(w, "<html>hello")
		}
	})})
	for _, tt := range []struct {
		name, method, path string
		status             int
		length             int64 // -1: none was named
		body               string
	}{
		{"a body with a length keeps it", "GET", "/length", 200, 5, "hello"},
		{"a body without one gets none", "GET", "/chunked", 200, -1, "hello"},
		{"an empty body stays empty", "GET", "/empty", 200, 0, ""},
		{"HEAD names the length of the body that it leaves out", "HEAD", "/length", 200, 5, ""},
		{"HEAD of a body without a length names none", "HEAD", "/chunked", 200, -1, ""},
		{"204 has neither body nor length", "GET", "/204", 204, 0, ""},
		{"304 has neither body nor length", "GET", "/304", 304, 0, ""},
		{"POST without a body is answered", "POST", "/length", 200, 5, "hello"},
	} {
		onEach(t, world.Ways, func(t *testing.T, via world.Way) {
			t.Run(tt.name, func(t *testing.T) {
				a := world.Do(t, w.Client(via), world.Request(t, tt.method, via.URL(tt.path), nil))
				if a.StatusCode != tt.status || a.ContentLength != tt.length || a.Text != tt.body || a.Err != nil {
					t.Errorf("got %d, length %d, body %q, %v; want %d, %d, %q", a.StatusCode, a.ContentLength, a.Text, a.Err, tt.status, tt.length, tt.body)
				}
				if te := a.TransferEncoding; tt.body == "" && tt.length >= 0 && len(te) > 0 {
					t.Errorf("an answer without a body is framed as %v", te)
				}
			})
		})
	}
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		t.Run("no media type is made up", func(t *testing.T) {
			if a := w.Get(t, via, "/untyped"); a.Header["Content-Type"] != nil {
				t.Errorf("Content-Type %q, and the origin named none", a.Header["Content-Type"])
			}
		})
	})
	w.WantRecord(t, "exchange", "mode", "h2", "status", 304, "outcome", "ok", "site", "shop", "host", world.Host)
}

func TestABodyThatEndsWithTheConnection(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{
		"HTTP/1.1": "HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.0": "HTTP/1.0 200 OK\r\n\r\n",
		"close":    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t, world.Options{Script: answer(head + "to the end")})
			onEach(t, world.Ways, func(t *testing.T, via world.Way) {
				for range 2 { // the client's connection outlives the origin's
					if a := w.Get(t, via, "/"); a.Text != "to the end" || a.Err != nil {
						t.Errorf("body %q, %v", a.Text, a.Err)
					}
				}
			})
		})
	}
}

// An origin may close a connection that it has just promised to keep.
func TestAConnectionThatTheOriginDropsCostsNoRequest(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Script: answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		for i := range 20 {
			if a := w.Get(t, via, "/"); a.StatusCode != 200 || a.Text != "hello" {
				t.Fatalf("request %d: %d %q", i, a.StatusCode, a.Text)
			}
		}
	})
}

// Browsers keep up to a hundred requests under way on one connection.
func TestAHundredRequestsAtOnce(t *testing.T) {
	t.Parallel()
	const many = 100
	var arrived atomic.Int64
	all := make(chan struct{})
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		if arrived.Add(1)%many == 0 {
			close(all)
		}
		<-all
		io.WriteString(w, r.URL.Path)
	})})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		all = make(chan struct{})
		var wg sync.WaitGroup
		for i := range many {
			r := world.Request(t, "GET", via.URL(fmt.Sprintf("/%d", i)), nil)
			wg.Go(func() {
				resp, err := w.Client(via).Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				if body, err := io.ReadAll(resp.Body); string(body) != r.URL.Path {
					t.Errorf("%s: %q, %v", r.URL.Path, body, err)
				}
			})
		}
		wg.Wait()
	})
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", r.URL.Path, body)
	})})
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		c := w.Raw(t, via)
		var all strings.Builder
		for i := range 5 {
			all.WriteString(world.Head("POST", via, fmt.Sprintf("/%d", i), "Content-Length: 4"))
			fmt.Fprintf(&all, "no.%d", i)
		}
		c.Send(all.String())
		for i := range 5 {
			if got, want := c.Answer("POST").Text, fmt.Sprintf("/%d no.%d", i, i); got != want {
				t.Errorf("answer %d is %q, want %q", i, got, want)
			}
		}
	})
}

func TestAnHTTP10ClientGetsNoChunks(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush() // no length
		io.WriteString(w, "hello "+r.Proto)
	})})
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		c := w.Raw(t, via)
		c.Send("GET " + via.Target("/") + " HTTP/1.0\r\nHost: " + world.Host + "\r\n\r\n")
		head, body, _ := strings.Cut(c.Rest(), "\r\n\r\n")
		if strings.Contains(strings.ToLower(head), "transfer-encoding") || body != "hello HTTP/1.1" {
			t.Errorf("got %q, then %q", head, body)
		}
	})
}

// RFC 9110 section 7.7: a proxy does not transform; a client's Accept-Encoding
// is its own, and a packed body keeps its bytes and their number.
func TestPackedBodiesStayPacked(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, strings.Repeat("hello ", 1000))
	z.Close()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Accepts", strings.Join(r.Header["Accept-Encoding"], "|"))
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", fmt.Sprint(packed.Len()))
		w.Write(packed.Bytes())
	})})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		for _, accept := range []string{"", "gzip, deflate, br, zstd", "identity"} {
			var fields []string
			if accept != "" {
				fields = []string{"Accept-Encoding", accept}
			}
			a := w.Get(t, via, "/", fields...)
			if a.Text != packed.String() || a.ContentLength != int64(packed.Len()) || a.Header.Get("Content-Encoding") != "gzip" {
				t.Errorf("Accept-Encoding %q: %d bytes of length %d, encoding %q; want the %d of the origin", accept, len(a.Text), a.ContentLength, a.Header.Get("Content-Encoding"), packed.Len())
			}
			if got := a.Header.Get("X-Accepts"); got != accept {
				t.Errorf("Accept-Encoding %q arrived as %q", accept, got)
			}
		}
	})
}

func TestPathsKeepTheirBytes(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI) })})
	paths := []string{
		"/", "/a|b\"c", "/a%2Fb", "/a%2fb", "/%7Euser", "/~user", "//x", "//x/../y", "/a//b", "/./a/../b", "/a;v=1,2", "/a?b;c&d=%zz",
		"/?", "/a?", "/a??b", "/ä", "/%C3%A4", "/a:b@c", "/[1]", "/{x}`^", "/a\\b", "/%2e%2e/", "/a+b%20c", "/http://x/y", "/'()*!$",
	}
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		c := w.Raw(t, via)
		for _, path := range paths {
			c.Send(world.Head("GET", via, path))
			if a := c.Answer("GET"); a.Text != path {
				t.Errorf("%s arrived as %d %s", path, a.StatusCode, a.Text)
			}
		}
	})
	for _, via := range []world.Way{world.TunnelH2, world.TunnelH2H1} {
		t.Run(via.Name, func(t *testing.T) {
			for _, path := range paths {
				r := world.Request(t, "GET", via.URL("/"), nil)
				path, query, asked := strings.Cut(path, "?")
				r.URL.Opaque, r.URL.RawQuery, r.URL.ForceQuery = path, query, asked
				if strings.HasPrefix(path, "//") {
					continue // net/http's own client can't send these
				}
				if a := world.Do(t, w.Client(via), r); a.Text != r.URL.RequestURI() {
					t.Errorf("%s arrived as %d %s", r.URL.RequestURI(), a.StatusCode, a.Text)
				}
			}
		})
	}
}

func TestOptionsOfTheWholeServer(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Method+" "+r.RequestURI) })})
	for _, via := range []world.Way{world.TunnelPlain, world.TunnelH1} {
		t.Run(via.Name, func(t *testing.T) {
			c := w.Raw(t, via)
			c.Send("OPTIONS * HTTP/1.1\r\nHost: " + world.Host + "\r\n\r\n")
			if a := c.Answer("OPTIONS"); a.Text != "OPTIONS *" {
				t.Errorf("answered with %d %q", a.StatusCode, a.Text)
			}
		})
	}
	t.Run("plain", func(t *testing.T) { // RFC 9112 section 3.2.4: an empty path is the last proxy's "*"
		c := w.Dial(t)
		c.Send("OPTIONS http://" + world.Host + " HTTP/1.1\r\nHost: " + world.Host + "\r\n\r\n")
		if a := c.Answer("OPTIONS"); a.Text != "OPTIONS *" {
			t.Errorf("answered with %d %q", a.StatusCode, a.Text)
		}
	})
}
