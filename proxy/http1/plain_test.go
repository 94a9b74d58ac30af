package http1

import (
	"bufio"
	"bytes"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"
)

func TestPlainRequests(t *testing.T) {
	t.Parallel()
	const get = "GET /a?b=c HTTP/1.1\r\nHost: shop.test\r\n"
	for _, tt := range []struct {
		name, head string
		want       bool
	}{
		{"a GET", get + "\r\n", true},
		{"HEAD", "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", true},
		{"with the next one behind it", get + "\r\n" + get, true},
		{"fields that browsers send", get + "Connection: keep-alive\r\nAccept: */*\r\ncookie: a=b; c=d\r\nCookie: e=f\r\n\r\n", true},
		{"an empty value", get + "X-Empty:\r\n\r\n", true},
		{"half a head", get + "Accept: */*\r\n", false},
		{"a body", get + "Content-Length: 5\r\n\r\nhello", false},
		{"a length of nothing", get + "Content-Length: 0\r\n\r\n", false},
		{"chunks", get + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
		{"POST", "POST / HTTP/1.1\r\nHost: x\r\n\r\n", false},
		{"CONNECT", "CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n", false},
		{"a whole URL", "GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n", false},
		{"the server as a whole", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", false},
		{"HTTP/1.0", "GET / HTTP/1.0\r\nHost: x\r\n\r\n", false},
		{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false},
		{"a space in the target", "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", false},
		{"the last one on its connection", get + "Connection: close\r\n\r\n", false},
		{"an upgrade", get + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", false},
		{"an expectation", get + "Expect: 100-continue\r\n\r\n", false},
		{"no Host", "GET / HTTP/1.1\r\nAccept: */*\r\n\r\n", false},
		{"two Hosts", get + "Host: shop.test\r\n\r\n", false},
		{"a Host that is none", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", false},
		{"a folded line", get + "X: a\r\n b\r\n\r\n", false},
		{"a space before the colon", get + "Content-Length : 5\r\n\r\nhello", false},
		{"a lone LF", get + "X: a\nContent-Length: 5\r\n\r\nhello", false},
		{"a lone CR", get + "X: a\rContent-Length: 5\r\n\r\nhello", false},
		{"lone LFs only", "GET / HTTP/1.1\nHost: x\n\n", false},
		{"a NUL", get + "X: a\x00b\r\n\r\n", false},
		{"an empty line before", "\r\n" + get + "\r\n", false},
		{"no request", "\x16\x03\x01\r\n\r\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, n := plain(t.Context(), []byte(tt.head))
			if (r != nil) != tt.want {
				t.Fatalf("taken: %v, want %v", r != nil, tt.want)
			}
			if r != nil && !strings.HasSuffix(tt.head[:n], "\r\n\r\n") {
				t.Errorf("its head is %q", tt.head[:n])
			}
		})
	}
}

// FuzzPlain: what is taken as a plain request, net/http's server reads in the
// same way, with nothing behind it; and Framing sees one message in it.
func FuzzPlain(f *testing.F) {
	for _, s := range []string{
		"GET /a%20b;c?d=e HTTP/1.1\r\nHost: shop.test:8443\r\nAccept: */*\r\nCookie: a=b\r\ncookie: c\r\n\r\n",
		"OPTIONS / HTTP/1.1\r\nHost: x\r\nPragma: no-cache\r\nConnection: Keep-Alive\r\n\r\nGET / HTTP/1.1\r\n",
		"HEAD //x HTTP/1.1\r\nhost:\tx \r\nx-y:\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		got, n := plain(t.Context(), head)
		if got == nil {
			return
		}
		br := bufio.NewReader(bytes.NewReader(head))
		want, err := http.ReadRequest(br)
		if err != nil {
			t.Fatalf("net/http: %v", err)
		}
		if rest := len(head) - n; br.Buffered() != min(rest, 4096-n) && n < 4096 {
			t.Errorf("net/http leaves %d bytes, want %d", br.Buffered(), rest)
		}
		for name, values := range want.Header {
			for _, v := range values {
				if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(v) {
					t.Errorf("net/http's server refuses %q: %q", name, v)
				}
			}
		}
		if got.Method != want.Method || got.RequestURI != want.RequestURI || got.Proto != want.Proto || got.Host != want.Host ||
			got.Close != want.Close || want.ContentLength != 0 || len(want.TransferEncoding) > 0 ||
			!reflect.DeepEqual(got.URL, want.URL) || !reflect.DeepEqual(got.Header, want.Header) {
			t.Errorf("%q\ngot  %+v\nwant %+v", head, got, want)
		}
		var follows Framing
		if end, ended := follows.Next(head); end != n || !ended {
			t.Errorf("the message ends at %d, %v; want %d", end, ended, n)
		}
	})
}
