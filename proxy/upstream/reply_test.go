package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// spoken is a connection to an upstream that says what it says, whatever it is
// asked.
type spoken struct {
	net.Conn
	says  io.Reader
	asked bytes.Buffer
}

func (s *spoken) Read(b []byte) (int, error)  { return s.says.Read(b) }
func (s *spoken) Write(b []byte) (int, error) { return s.asked.Write(b) }
func (s *spoken) SetDeadline(time.Time) error { return nil }
func (s *spoken) Close() error                { return nil }
func dialSpoken(t testing.TB, raw string, says io.Reader) (net.Conn, *spoken, error) {
	t.Helper()
	u, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	s := &spoken{says: says}
	d := newDialer(u, func(context.Context, string, string) (net.Conn, error) { return s, nil }, nil, Limits{Handshake: time.Second, Connect: time.Second})
	c, err := d.tunnel(t.Context(), "shop.test:443")
	return c, s, err
}

func TestWhatUpstreamsAreAsked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, url, says, want string }{
		{"CONNECT", "http://10.0.0.1", "HTTP/1.1 200 OK\r\n\r\n", "CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\n\r\n"},
		{"CONNECT with credentials", "http://u:p%40%FF@10.0.0.1", "HTTP/1.1 200 OK\r\n\r\n",
			"CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\nProxy-Authorization: Basic dTpwQP8=\r\n\r\n"},
		{"SOCKS5 with a name", "socks5://10.0.0.1", "\x05\x00\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50", "\x05\x01\x00\x05\x01\x00\x03\x09shop.test\x01\xbb"},
		{"SOCKS5 with credentials", "socks5://u:p%FF@10.0.0.1", "\x05\x02\x01\x00\x05\x00\x00\x03\x01x\x00\x50",
			"\x05\x02\x00\x02\x01\x01u\x02p\xff\x05\x01\x00\x03\x09shop.test\x01\xbb"},
		{"SOCKS5 that asks nobody", "socks5://u:p@10.0.0.1", "\x05\x00\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50",
			"\x05\x02\x00\x02\x05\x01\x00\x03\x09shop.test\x01\xbb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, s, err := dialSpoken(t, tt.url, strings.NewReader(tt.says+"220 ready"))
			if err != nil {
				t.Fatal(err)
			}
			if s.asked.String() != tt.want {
				t.Errorf("asked %q, want %q", s.asked.String(), tt.want)
			}
			if b, err := io.ReadAll(c); string(b) != "220 ready" {
				t.Errorf("the target says %q, %v; want what was behind the answer", b, err)
			}
		})
	}
}

func TestSOCKS5TakesAddressesAsTheyAre(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"192.0.2.1:80":          "\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50",
		"[::ffff:192.0.2.1]:80": "\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50",
		"[2001:db8::1]:443":     "\x05\x01\x00\x04\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01\xbb",
	} {
		if b, err := socksRequest(addr); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v; want %q", addr, b, err, want)
		}
	}
	if _, err := socksRequest(strings.Repeat("a", 256) + ":80"); err == nil {
		t.Error("a name of 256 bytes is taken")
	}
}

func TestURLsOfUpstreams(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"http://10.0.0.1":              "http://10.0.0.1:80",
		"https://Proxy.Example.COM./":  "https://proxy.example.com:443",
		"socks5h://user@[2001:DB8::1]": "socks5://user:@[2001:db8::1]:1080",
		"http://a:b@10.0.0.1:03128":    "http://a:b@10.0.0.1:3128",
		"http://%61:%62@10.0.0.1:3128": "http://a:b@10.0.0.1:3128",
		"http://proxy_1:3128":          "http://proxy_1:3128",
		"http://a\xff.test":            "",
		"http://bücher.example:1":      "http://xn--bcher-kva.example:1",
		"":                             "", "10.0.0.1:3128": "", "ftp://10.0.0.1": "", "http://": "", "http://a:b@": "",
		"http://10.0.0.1:0": "", "http://10.0.0.1:65536": "", "http://10.0.0.1/x": "", "http://10.0.0.1?x": "", "http://10.0.0.1#x": "",
		"http://a%3Ab:c@10.0.0.1": "", "socks5://:p@10.0.0.1": "", "socks5://" + strings.Repeat("u", 256) + ":p@10.0.0.1": "",
		"http://u:" + strings.Repeat("p", 9000) + "@10.0.0.1": "", "http://a b": "", "http://[::1": "", "http://u:hunter2@[::1": "",
	} {
		u, err := Parse(raw)
		if got := u.URL(); err == nil && got != want || err != nil && want != "" {
			t.Errorf("%.40s: %s, %v; want %s", raw, got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v shows a password", err)
		}
		if err == nil && strings.ContainsAny(u.String(), "@") {
			t.Errorf("%s is shown with its user", u)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"http://a:b@10.0.0.1:3128", "socks5h://[::1]:1", "https://xn--a.test/", "http://%ff:%00@x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := Parse(raw)
		if err != nil {
			return
		}
		again, err := Parse(u.URL())
		if err != nil || again != u {
			t.Errorf("%q is %q, and that is %q, %v", raw, u.URL(), again.URL(), err)
		}
		if _, _, err := net.SplitHostPort(u.Addr()); err != nil {
			t.Errorf("%q has the address %q", raw, u.Addr())
		}
	})
}

// FuzzReply: whatever an upstream answers is a tunnel or an error with a reason,
// and quotes nothing of it.
func FuzzReply(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\n\r\nx", "HTTP/1.1 407 No\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "\x05\x00\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50x", "\x05\x02\x01\x00\x05\x05", "\x05\xff", "SECRET",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, says []byte) {
		for _, raw := range []string{"http://u:p@10.0.0.1", "socks5://u:p@10.0.0.1"} {
			c, _, err := dialSpoken(t, raw, bufio.NewReader(bytes.NewReader(says)))
			if err == nil {
				if rest, err := io.ReadAll(c); err != nil || !bytes.HasSuffix(says, rest) {
					t.Errorf("%s: of %q the target said %q, %v", raw, says, rest, err)
				}
				continue
			}
			failed, ok := errors.AsType[*Error](err)
			if !ok || failed.Reason == "" {
				t.Errorf("%s: %q is answered by %v, without a reason", raw, says, err)
			}
			if bytes.Contains(says, []byte("SECRET")) && strings.Contains(err.Error(), "SECRET") {
				t.Errorf("%s: %v quotes the answer", raw, err)
			}
		}
	})
}
