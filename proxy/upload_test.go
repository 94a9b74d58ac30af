package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/world"
)

// The origin decides whether the client's body is wanted.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && r.URL.Query().Has("h1") && r.Header.Get("Expect") != "100-continue" {
			t.Errorf("Expect arrived as %q", r.Header.Get("Expect"))
		}
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Write(body)
	})})
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		fields := []string{"Expect: 100-continue", "Content-Length: 5"}
		t.Run("100, then the body is read", func(t *testing.T) {
			c := w.Raw(t, via)
			c.Send(world.Head("POST", via, "/yes?h1", fields...))
			c.Want("HTTP/1.1 100 Continue\r\n\r\n")
			c.Send("hello")
			if a := c.Answer("POST"); a.StatusCode != 200 || a.Text != "hello" {
				t.Errorf("then %d %q", a.StatusCode, a.Text)
			}
		})
		t.Run("417 comes in place of 100", func(t *testing.T) {
			c := w.Raw(t, via)
			c.Send(world.Head("POST", via, "/no?h1", fields...))
			if a := c.Answer("POST"); a.StatusCode != 417 {
				t.Errorf("got %d, want 417", a.StatusCode)
			}
		})
	})
	onEach(t, []world.Way{world.TunnelH2, world.TunnelH2H1}, func(t *testing.T, via world.Way) {
		for path, status := range map[string]int{"/yes": 200, "/no": 417} {
			r := world.Request(t, "POST", via.URL(path), strings.NewReader("hello"), "Expect", "100-continue")
			if a := world.Do(t, w.Client(via), r); a.StatusCode != status {
				t.Errorf("%s: %d, want %d", path, a.StatusCode, status)
			}
		}
	})
}

func TestAnOriginThatIgnoresExpectGetsTheBody(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Script: func(c *world.Conn) {
		r := c.Request() // and no 100
		body, _ := io.ReadAll(r.Body)
		c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	}})
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		t.Parallel() // each waits a second
		c := w.Raw(t, via)
		c.Send(world.Head("POST", via, "/", "Expect: 100-continue", "Content-Length: 5"))
		c.Want("HTTP/1.1 100 Continue\r\n\r\n")
		c.Send("hello")
		if a := c.Answer("POST"); a.Text != "hello" {
			t.Errorf("got %d %q", a.StatusCode, a.Text)
		}
	})
}

func TestA50MBUploadIsStreamed(t *testing.T) {
	const size = 50 << 20
	var heap atomic.Uint64 // in the middle of it
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		n, buf := 0, make([]byte, len(block))
		for n < size {
			read, err := io.ReadFull(r.Body, buf[:min(len(buf), size-n)])
			if !bytes.Equal(buf[:read], block[:read]) || err != nil {
				fmt.Fprintf(w, "after %d bytes: %v", n+read, err)
				return
			}
			if n += read; n > size/2 && heap.Load() == 0 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				heap.Store(m.HeapAlloc)
			}
		}
		io.WriteString(w, "all of it")
	})})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		heap.Store(0)
		r := world.Request(t, "POST", via.URL("/"), io.LimitReader(&endless{}, size), "Expect", "100-continue")
		if via != world.TunnelH2 {
			r.ContentLength = size // else by chunks
		}
		resp, err := w.Client(via).Do(r) // in its own time
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if said, err := io.ReadAll(resp.Body); string(said) != "all of it" {
			t.Errorf("%d %s, %v", resp.StatusCode, said, err)
		}
		if mib := heap.Load() >> 20; mib > 30 {
			t.Errorf("%d MiB on the heap in the middle of it", mib)
		}
	})
}

// block is 64 KiB in which no two places look alike.
var block = func() []byte {
	b := make([]byte, 64<<10)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}()

// endless is the block again and again.
type endless struct{ at int }

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, block[e.at:])
	e.at = (e.at + n) % len(block)
	return n, nil
}

func TestBodiesKeepTheirFraming(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%q, length %d, %v, field %q", body, r.ContentLength, r.TransferEncoding, r.Header["Content-Length"])
	})})
	for _, tt := range []struct{ name, method, fields, body, want string }{
		{"a length", "POST", "Content-Length: 5", "hello", `"hello", length 5, [], field ["5"]`},
		{"a length of 0", "POST", "Content-Length: 0", "", `"", length 0, [], field ["0"]`},
		{"chunks", "POST", "Transfer-Encoding: chunked", "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", `"hello", length -1, [chunked], field []`},
		{"no chunk", "PUT", "Transfer-Encoding: chunked", "0\r\n\r\n", `"", length -1, [chunked], field []`},
		{"a GET with a body", "GET", "Content-Length: 5", "hello", `"hello", length 5, [], field ["5"]`},
		{"a DELETE with a body", "DELETE", "Content-Length: 5", "hello", `"hello", length 5, [], field ["5"]`},
		{"a GET without", "GET", "X: y", "", `"", length 0, [], field []`},
		{"a DELETE without", "DELETE", "X: y", "", `"", length 0, [], field []`},
	} {
		onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
			t.Run(tt.name, func(t *testing.T) {
				c := w.Raw(t, via)
				c.Send(world.Head(tt.method, via, "/", tt.fields) + tt.body)
				if a := c.Answer(tt.method); a.Text != tt.want {
					t.Errorf("the origin saw %s, want %s", a.Text, tt.want)
				}
			})
		})
	}
	for _, via := range []world.Way{world.TunnelH2, world.TunnelH2H1} {
		t.Run(via.Name, func(t *testing.T) {
			a := world.Do(t, w.Client(via), world.Request(t, "POST", via.URL("/"), strings.NewReader("hello")))
			if want := `"hello", length 5, [], field ["5"]`; a.Text != want {
				t.Errorf("the origin saw %s, want %s", a.Text, want)
			}
		})
	}
}

// The answer to an upload may come before its end, and must not wait for it.
func TestAnEarlyAnswerToAnUpload(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex() // or net/http waits for the body
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	})})
	const some = "the first bytes, and then silence"
	for name, size := range map[string]int{"of a few bytes": 100, "of 10 MB": 10 << 20} {
		onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
			t.Run(name, func(t *testing.T) {
				c := w.Raw(t, via)
				c.Send(world.Head("POST", via, "/", fmt.Sprintf("Content-Length: %d", size)) + some)
				if a := c.Answer("POST"); a.StatusCode != 413 || a.Text != "too large\n" {
					t.Errorf("got %d %q", a.StatusCode, a.Text)
				}
			})
		})
		onEach(t, []world.Way{world.TunnelH2, world.TunnelH2H1}, func(t *testing.T, via world.Way) {
			t.Run(name, func(t *testing.T) {
				pr, pw := io.Pipe()
				defer pw.Close()
				go io.WriteString(pw, some)
				r := world.Request(t, "POST", via.URL("/"), pr)
				r.ContentLength = int64(size)
				if a := world.Do(t, w.Client(via), r); a.StatusCode != 413 || a.Text != "too large\n" {
					t.Errorf("got %d %q", a.StatusCode, a.Text)
				}
			})
		})
	}
}

// A client that dies in an upload is no fault of the origin's.
func TestAClientThatDiesWithinItsUpload(t *testing.T) {
	t.Parallel()
	broken := make(chan error, 1)
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		broken <- err
	})})
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		c := w.Raw(t, via)
		c.Send(world.Head("POST", via, "/", "Content-Length: 100") + "the first bytes")
		c.Reset()
		if err := <-broken; err == nil {
			t.Error("the origin saw a whole body")
		}
		w.WantRecord(t, "exchange", "mode", via.Mode(), "outcome", "client_gone")
	})
}

func TestAHeadThatIsTooLargeIsA431(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })})
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		c := w.Raw(t, via)
		go io.WriteString(c.Conn, world.Head("GET", via, "/", "X-Large: "+strings.Repeat("x", 1<<20)))
		if a := c.Answer("GET"); a.StatusCode != 431 {
			t.Errorf("got %d, want 431", a.StatusCode)
		}
		if a := w.Get(t, via, "/", "X-Large", strings.Repeat("x", 16<<10)); a.Text != "hello" {
			t.Errorf("another client, with 16 KiB of header, got %d", a.StatusCode)
		}
	})
	onEach(t, []world.Way{world.TunnelH2}, func(t *testing.T, via world.Way) {
		_, err := w.Client(via).Do(world.Request(t, "GET", via.URL("/"), nil, "X-Large", strings.Repeat("x", 1<<20)))
		if err == nil {
			t.Error("1 MiB of header went through")
		}
		if a := w.Get(t, via, "/", "X-Large", strings.Repeat("x", 16<<10)); a.Text != "hello" {
			t.Errorf("the next request got %d", a.StatusCode)
		}
	})
}
