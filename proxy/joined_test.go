package proxy

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// wireTap notes what is written to it, write by write.
type wireTap struct {
	net.Conn
	writes []string
	fail   error
}

func (w *wireTap) Write(b []byte) (int, error) {
	if w.fail != nil {
		return 0, w.fail
	}
	w.writes = append(w.writes, string(b))
	return len(b), nil
}

func TestSmallWritesOfHTTP2AreJoined(t *testing.T) {
	head, body := strings.Repeat("h", 300), strings.Repeat("b", 1100)
	large := strings.Repeat("l", 16<<10)
	const turn = "" // the others have had their turn
	for _, tt := range []struct {
		name         string
		writes, want []string
	}{
		{"a head and its body go together", []string{head, body}, []string{head + body}},
		{"a head alone goes soon", []string{head, turn}, []string{head}},
		{"a body that comes late goes by itself", []string{head, turn, body}, []string{head, body}},
		{"a large body goes as it is, after its head", []string{head, large, turn}, []string{head, large}},
		{"a large write waits for nothing", []string{large}, []string{large}},
		{"two responses stay in order", []string{head, body, head, turn, body}, []string{head + body, head, body}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tap := &wireTap{}
				c := &clientConn{Conn: tap, joins: true}
				for _, b := range tt.writes {
					if b == turn {
						synctest.Wait()
						continue
					}
					if n, err := c.Write([]byte(b)); n != len(b) || err != nil {
						t.Fatalf("write of %d bytes: %d, %v", len(b), n, err)
					}
				}
				synctest.Wait()
				if !slices.Equal(tap.writes, tt.want) {
					t.Errorf("lengths on the wire %v, want %v", lengths(tap.writes), lengths(tt.want))
				}
			})
		})
	}
}

func lengths(of []string) (n []int) {
	for _, s := range of {
		n = append(n, len(s))
	}
	return n
}

func TestAHeldWriteGoesOutBeforeTheClose(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	c := &clientConn{Conn: server, joins: true}
	c.out.held = append(joinBuffers.Get().(*[maxJoined]byte)[:0], "goodbye"...)
	go c.Close()
	b := make([]byte, 16)
	if n, err := client.Read(b); string(b[:n]) != "goodbye" || err != nil {
		t.Errorf("read %q, %v; want goodbye", b[:n], err)
	}
}

// A close ends a write that waits for its peer: it must not wait for that.
func TestACloseEndsAHeldWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe() // whose other end nobody reads
		defer client.Close()
		c := &clientConn{Conn: server, joins: true}
		if _, err := c.Write([]byte("head")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // now it is in the pipe's Write
		c.Close()
		synctest.Wait()
		if _, err := c.Write([]byte("more")); err == nil {
			t.Error("a write after the close succeeded")
		}
	})
}

func TestAnErrorOfAHeldWriteIsToldToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("connection reset")
		c := &clientConn{Conn: &wireTap{fail: gone}, joins: true}
		if _, err := c.Write([]byte("head")); err != nil {
			t.Fatalf("the first write: %v; want none yet", err)
		}
		synctest.Wait()
		if _, err := c.Write([]byte("body")); !errors.Is(err, gone) {
			t.Errorf("the second write: %v, want %v", err, gone)
		}
	})
}
