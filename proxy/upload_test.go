package proxy_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
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
	var peak uint64
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		sum, buf := sha256.New(), make([]byte, 1<<20)
		for n := 0; ; {
			read, err := r.Body.Read(buf)
			sum.Write(buf[:read])
			if n += read; n > size/2 && peak == 0 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				peak = m.HeapAlloc
			}
			if err != nil {
				break
			}
		}
		io.WriteString(w, hex.EncodeToString(sum.Sum(nil)))
	})})
	want := sha256.New()
	io.CopyN(want, pattern{}, size)
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		peak = 0
		r := world.Request(t, "POST", via.URL("/"), io.LimitReader(pattern{}, size), "Expect", "100-continue")
		if via != world.TunnelH2 {
			r.ContentLength = size // else by chunks
		}
		a := world.Do(t, w.Client(via), r)
		if a.Text != hex.EncodeToString(want.Sum(nil)) {
			t.Errorf("%d %s: not the bytes that were sent", a.StatusCode, a.Text)
		}
		if peak > 20<<20 {
			t.Errorf("%d MiB on the heap in the middle of it", peak>>20)
		}
	})
}

// pattern is an endless body in which no two places look alike for long.
type pattern struct{}

func (pattern) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(i * i >> 3)
	}
	return len(b), nil
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
