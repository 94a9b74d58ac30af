package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// follow returns where the messages in b end, when it comes in pieces.
func follow(f *Framing, b []byte, piece int) (ends []int) {
	for at := 0; at < len(b) && f.Fault == nil; {
		rest := b[at:min(len(b), at+piece)]
		n, ended := f.Next(rest)
		at += n
		if ended && !f.interim() {
			ends = append(ends, at)
		}
	}
	return ends
}

func TestFramingOfRequests(t *testing.T) {
	t.Parallel()
	const get = "GET / HTTP/1.1\r\nHost: x\r\n"
	for _, tt := range []struct {
		name, stream string
		whole        int // messages
		fault        error
	}{
		{"no body", get + "\r\n" + get + "\r\n", 2, nil},
		{"a length", get + "Content-Length: 5\r\n\r\nhello" + get + "\r\n", 2, nil},
		{"a length of nothing", get + "content-length: 0\r\n\r\n" + get + "\r\n", 2, nil},
		{"chunks", get + "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n" + get + "\r\n", 2, nil},
		{"an empty line between", get + "Content-Length: 5\r\n\r\nhello\r\n" + get + "\r\n", 2, nil},
		{"lone LFs", "GET / HTTP/1.1\nHost: x\nContent-Length: 5\n\nhello", 1, nil},
		{"a body that is not there yet", get + "Content-Length: 5\r\n\r\nhell", 0, nil},
		{"two framings", get + "\r\n" + get + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 1, ErrTwoFramings},
		{"two lengths", get + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 0, ErrLength},
		{"a signed length", get + "Content-Length: +5\r\n\r\nhello", 0, ErrLength},
		{"a fold", get + " X: y\r\n\r\n", 0, ErrFolded},
		{"chunks in HTTP/1.0", "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 0, ErrOldChunked},
		{"a chunk size that is none", get + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + get + "\r\n", 0, ErrLost},
		{"a line without end", strings.Repeat("x", 2<<20), 0, ErrLost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, piece := range []int{1, 7, len(tt.stream)} {
				if len(tt.stream)/piece > 1<<16 {
					continue
				}
				var f Framing
				ends := follow(&f, []byte(tt.stream), piece)
				if len(ends) != tt.whole || !errors.Is(f.Fault, tt.fault) {
					t.Errorf("in pieces of %d: messages end at %v, fault %v; want %d, %v", piece, ends, f.Fault, tt.whole, tt.fault)
				}
			}
		})
	}
}

// Where net/http reads on, and nothing is uncertain, both agree on every end.
func FuzzFraming(f *testing.F) {
	for _, s := range []string{
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.0\r\n\r\n\r\nGET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
	} {
		f.Add([]byte(s), 3, false)
	}
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\n\r\nto the end",
		"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nHTTP/1.1 304 Not Modified\r\n\r\n",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nhi",
	} {
		f.Add([]byte(s), 3, true)
	}
	f.Fuzz(func(t *testing.T, stream []byte, piece int, responses bool) {
		framing := Framing{responses: responses}
		got := follow(&framing, stream, max(1, piece))
		want := endsByNetHTTP(stream, responses)
		if framing.Fault != nil {
			want = want[:min(len(want), len(got))]
		}
		if !slices.Equal(got[:min(len(got), len(want))], want) {
			t.Errorf("messages end at %v, net/http says %v", got, want)
		}
	})
}

func endsByNetHTTP(stream []byte, responses bool) (ends []int) {
	rest := bytes.NewReader(stream)
	r := bufio.NewReader(rest)
	for {
		body, final, err := readMessage(r, responses)
		if err != nil {
			return ends
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			return ends
		}
		if final {
			ends = append(ends, len(stream)-rest.Len()-r.Buffered())
		}
	}
}

func readMessage(r *bufio.Reader, responses bool) (body io.Reader, final bool, err error) {
	if !responses {
		req, err := http.ReadRequest(r)
		if err != nil || req.Method == "PRI" {
			return nil, false, errors.Join(err, errors.ErrUnsupported)
		}
		return req.Body, true, nil
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 { // it ends with the connection
		return nil, false, errors.Join(err, errors.ErrUnsupported)
	}
	return resp.Body, resp.StatusCode/100 != 1, nil
}

func BenchmarkFraming(b *testing.B) {
	head := []byte("GET /some/path?with=query HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\r\n" +
		"Accept: text/html,application/xhtml+xml\r\nAccept-Encoding: gzip, deflate, br\r\nAccept-Language: en\r\nCache-Control: no-cache\r\n" +
		"Connection: keep-alive\r\nCookie: a=1; b=2; c=3\r\nReferer: https://shop.example.com/\r\nSec-Fetch-Mode: navigate\r\n\r\n")
	var f Framing
	b.ReportAllocs()
	for b.Loop() {
		f.Next(head)
	}
}
