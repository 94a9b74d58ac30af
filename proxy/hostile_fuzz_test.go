package proxy_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

// fuzzed is an F for what goes on while inputs are tried, when F's own context
// may not be asked for.
type fuzzed struct{ *testing.F }

func (fuzzed) Context() context.Context { return context.Background() }

// FuzzWire sends bytes to a running proxy. It has to live, and to pass on only
// requests to hosts that the client has named, each framed in one way.
func FuzzWire(f *testing.F) {
	origin := world.NewWitness(world.Readings[0])
	w := world.New(fuzzed{f}, world.Options{
		Script:   origin.Script,
		Config:   func(c *config.Config) { c.Undeclared = config.Refuse }, // no packet leaves the machine
		Timeouts: impatient,
	})
	replace := strings.NewReplacer("{/}", world.Plain.Target("/"), "{/evil}", world.Plain.Target("/evil"))
	for _, s := range corpus {
		if len(s.raw) < 10_000 {
			f.Add([]byte(replace.Replace(s.raw) + world.Head("GET", world.Plain, "/marker")))
		}
	}
	for _, s := range []string{
		"CONNECT shop.test:80 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: shop.test\r\n\r\n",
		"CONNECT shop.test:80 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"CONNECT shop.test:443 HTTP/1.1\r\n\r\n\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
		"CONNECT shop.test:22 HTTP/1.1\r\n\r\nSSH-2.0-x\r\n",
		"CONNECT 127.0.0.1:80 HTTP/1.1\r\nProxy-Authorization: Basic eA==\r\n\r\n",
		"GET http://www.shop.test/ HTTP/1.1\r\nX-Proxy-Session: a\r\nConnection: x-proxy-session\r\n\r\n",
		"OPTIONS http://shop.test HTTP/1.1\r\nHost: shop.test\r\n\r\n",
		"GET http://sessionproxy.internal/ HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	var named []byte // by the last inputs: the proxy may give up one that the origin sees a little later
	f.Fuzz(func(t *testing.T, input []byte) {
		origin.Forget()
		named = append(named, bytes.ToLower(input)...)
		named = named[max(0, len(named)-1<<20):]
		c, err := net.Dial("tcp", w.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Write(input); err == nil {
			c.(*net.TCPConn).CloseWrite()
		}
		if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("the connection did not end: %v", err)
		}
		if bytes.Contains(input, []byte("CONNECT")) {
			return // a blind tunnel passes anything
		}
		for _, s := range origin.Seen() {
			for _, host := range s.Field("Host") {
				if !bytes.Contains(named, []byte(strings.ToLower(host))) {
					t.Errorf("the origin saw %q", s.Head)
				}
			}
		}
		for _, fault := range origin.Faults() {
			t.Errorf("the origin was sent: %s", fault)
		}
	})
}
