package login

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

func pack(t testing.TB, encoding string, page []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		z, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	default:
		return page
	}
	if _, err := w.Write(page); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var encodings = []string{"", "gzip", "deflate", "br", "zstd"}

func TestPagesAreUnpacked(t *testing.T) {
	t.Parallel()
	for _, e := range encodings {
		page := []byte("<h1>Please sign in</h1>" + strings.Repeat("x", 1000))
		if got := Unpack(e, pack(t, e, page)); !bytes.Equal(got, page) {
			t.Errorf("%s: %.40q…, want the page", e, got)
		}
		bomb := bytes.Repeat([]byte{'x'}, 4<<20)
		if got := Unpack(e, pack(t, e, bomb)); len(got) != MaxPage {
			t.Errorf("%s: %d bytes of a page without end, want %d", e, len(got), MaxPage)
		}
		half := pack(t, e, bytes.Repeat([]byte("abcdefghij"), 10_000))
		if got := Unpack(e, half[:len(half)-1]); got == nil {
			t.Errorf("%s: a page that is not all there is none", e)
		}
	}
	for _, e := range []string{"compress", "gzip, br", "x"} {
		if got := Unpack(e, []byte("Please sign in")); got == nil || len(got) > 0 {
			t.Errorf("%s: %q, want an empty page", e, got)
		}
	}
}

// FuzzUnpack: whatever comes, a page is never nil, and never too long.
func FuzzUnpack(f *testing.F) {
	for i, e := range encodings {
		f.Add(uint8(i), pack(f, e, []byte("<h1>Please sign in</h1>")))
	}
	f.Fuzz(func(t *testing.T, encoding uint8, raw []byte) {
		if page := Unpack(encodings[int(encoding)%len(encodings)], raw); page == nil || len(page) > MaxPage {
			t.Errorf("a page of %d bytes", len(page))
		}
	})
}
