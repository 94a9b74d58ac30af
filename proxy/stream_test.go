package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/world"
)

// stream sends a request whose answer is read piece by piece.
func stream(t *testing.T, c *http.Client, r *http.Request) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	resp, err := c.Do(r.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// Each event must reach the client before the origin sends the next.
func TestEventsArriveOneByOne(t *testing.T) {
	t.Parallel()
	for _, mediaType := range []string{"text/event-stream", "application/x-ndjson", "text/plain"} {
		t.Run(mediaType, func(t *testing.T) {
			t.Parallel()
			next := make(chan bool)
			w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", mediaType)
				w.(http.Flusher).Flush()
				for i := range 5 {
					<-next
					fmt.Fprintf(w, "data: %d\n\n", i)
					w.(http.Flusher).Flush()
				}
			})})
			onEach(t, world.Ways, func(t *testing.T, via world.Way) {
				resp := stream(t, w.Client(via), world.Request(t, "GET", via.URL("/"), nil))
				lines := bufio.NewReader(resp.Body)
				for i := range 5 { // the head is here, so the first event may be sent
					next <- true
					if line, err := lines.ReadString('\n'); line != fmt.Sprintf("data: %d\n", i) {
						t.Fatalf("event %d is %q, %v", i, line, err)
					}
					lines.ReadString('\n')
				}
				if _, err := lines.ReadByte(); err != io.EOF {
					t.Errorf("after the last event: %v, want the end", err)
				}
			})
		})
	}
}

func TestABodyWithALengthArrivesPieceByPiece(t *testing.T) {
	t.Parallel()
	next := make(chan bool)
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "6")
		for _, piece := range []string{"ab", "cd", "ef"} {
			io.WriteString(w, piece)
			w.(http.Flusher).Flush()
			if piece != "ef" {
				<-next
			}
		}
	})})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		resp := stream(t, w.Client(via), world.Request(t, "GET", via.URL("/"), nil))
		for _, piece := range []string{"ab", "cd", "ef"} {
			b := make([]byte, 2)
			if _, err := io.ReadFull(resp.Body, b); string(b) != piece {
				t.Fatalf("read %q, %v; want %q", b, err, piece)
			}
			if piece != "ef" {
				next <- true
			}
		}
	})
}

// gRPC's shape: both directions are open at once, and a trailer ends it.
func TestBothDirectionsAtOnce(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex() // of HTTP/1.1
		if got := r.Header.Get("Te"); got != "trailers" {
			t.Errorf("TE arrived as %q", got)
		}
		w.Header().Set("Trailer", "Grpc-Status")
		w.Header().Set("Content-Type", "application/grpc")
		w.(http.Flusher).Flush()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintf(w, "echo %s\n", lines.Text())
			w.(http.Flusher).Flush()
		}
		w.Header().Set("Grpc-Status", "0")
	})})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		pr, pw := io.Pipe()
		r := world.Request(t, "POST", via.URL("/rpc"), pr, "Te", "trailers")
		resp := stream(t, w.Client(via), r)
		lines := bufio.NewReader(resp.Body)
		for i := range 3 {
			fmt.Fprintf(pw, "%d\n", i)
			if line, err := lines.ReadString('\n'); line != fmt.Sprintf("echo %d\n", i) {
				t.Fatalf("read %q, %v", line, err)
			}
		}
		pw.Close()
		if rest, err := io.ReadAll(lines); len(rest) > 0 || err != nil {
			t.Fatalf("then %q, %v", rest, err)
		}
		if got := resp.Trailer.Get("Grpc-Status"); got != "0" {
			t.Errorf("trailer Grpc-Status is %q, want 0", got)
		}
	})
}

func TestTrailersOfAnswers(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		name := http.TrailerPrefix + "Checksum"
		if r.URL.Path == "/announced" || r.URL.Path == "/both" {
			w.Header().Set("Trailer", "Checksum")
			name = "Checksum"
		}
		w.(http.Flusher).Flush()
		if r.URL.Path != "/empty" {
			io.WriteString(w, "hello")
		}
		w.Header().Set(name, "abc")
		if r.URL.Path == "/both" {
			w.Header().Set(http.TrailerPrefix+"Late", "def")
		}
	})})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		for _, path := range []string{"/announced", "/unannounced", "/both", "/empty"} {
			a := w.Get(t, via, path)
			if got := a.Trailer.Get("Checksum"); got != "abc" || a.Err != nil {
				t.Errorf("%s: trailer Checksum is %q, %v; want abc", path, got, a.Err)
			}
			if late := a.Trailer.Get("Late"); path == "/both" && late != "def" {
				t.Errorf("%s: trailer Late is %q, want def", path, late)
			}
		}
	})
}

func TestTrailersOfRequests(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", body, r.Trailer.Get("Checksum"))
	})})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		r := world.Request(t, "POST", via.URL("/"), io.MultiReader(strings.NewReader("hello")))
		r.Trailer = http.Header{"Checksum": {"abc"}}
		if a := world.Do(t, w.Client(via), r); a.Text != "hello abc" {
			t.Errorf("the origin saw %q", a.Text)
		}
	})
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		t.Run("unannounced", func(t *testing.T) {
			c := w.Raw(t, via)
			c.Send(world.Head("POST", via, "/", "Transfer-Encoding: chunked") + "5\r\nhello\r\n0\r\nChecksum: abc\r\n\r\n")
			if a := c.Answer("POST"); a.Text != "hello abc" {
				t.Errorf("the origin saw %q", a.Text)
			}
		})
	})
}

func TestEarlyHintsArriveEarly(t *testing.T) {
	t.Parallel()
	seen := make(chan bool)
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		<-seen
		w.Header().Set("X-Final", "yes")
		io.WriteString(w, "hello")
	})})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		var hints int
		r := world.Request(t, "GET", via.URL("/"), nil)
		a := world.Do(t, w.Client(via), r.WithContext(onHint(r.Context(), func(link string) {
			hints++
			if link != "</style.css>; rel=preload" {
				t.Errorf("the hint's Link is %q", link)
			}
			seen <- true
		})))
		if hints != 1 || a.Text != "hello" || a.Header.Get("X-Final") != "yes" {
			t.Errorf("%d hints, then %q %v", hints, a.Text, a.Header)
		}
	})
	onEach(t, []world.Way{world.Plain, world.TunnelH1}, func(t *testing.T, via world.Way) {
		t.Run("HTTP/1.0 knows no 1xx", func(t *testing.T) {
			c := w.Raw(t, via)
			c.Send("GET " + via.Target("/") + " HTTP/1.0\r\nHost: " + world.Host + "\r\n\r\n")
			seen <- true
			if all := c.Rest(); strings.Contains(all, "103") || !strings.HasSuffix(all, "hello") {
				t.Errorf("got %q", all)
			}
		})
	})
}
