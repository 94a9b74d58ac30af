package unpack

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// pack packs s, and says so by panic where it can't.
func pack(encoding, s string) []byte {
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
			panic(err)
		}
		w = z
	}
	if _, err := io.WriteString(w, s); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

var encodings = []string{"gzip", "deflate", "br", "zstd"}

// text is long, and does not pack to nothing.
var text = func() string {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 500_000)
	for i := range b {
		b[i] = 'a' + byte(r.IntN(16))
	}
	return string(b)
}()

func TestReader(t *testing.T) {
	t.Parallel()
	for _, encoding := range encodings {
		packed := pack(encoding, text)
		for _, tt := range []struct {
			name, encoding string
			body           []byte
			want           string
			fails          bool
		}{
			{"whole", encoding, packed, text, false},
			{"in capitals, with blanks", " " + strings.ToUpper(encoding) + " ", packed, text, false},
			{"of nothing", encoding, pack(encoding, ""), "", false},
			{"cut short", encoding, packed[:len(packed)/2], "", true},
			{"garbage", encoding, []byte("<!doctype html><p>plain text that claims to be packed</p>"), "", true},
			{"nothing at all", encoding, nil, "", encoding != "zstd"},
		} {
			t.Run(encoding+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				got, err := readAll(tt.encoding, tt.body)
				if (err != nil) != tt.fails || !tt.fails && got != tt.want {
					t.Errorf("%d bytes, %v; want %d", len(got), err, len(tt.want))
				}
				if tt.fails && !strings.HasPrefix(text, got) {
					t.Errorf("what came of it before it failed is no part of the text")
				}
			})
		}
	}
}

func readAll(encoding string, body []byte) (string, error) {
	r, err := Reader(encoding, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

// Members of gzip, and frames of zstd, that follow each other are one body.
func TestMembersThatFollowEachOther(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"gzip", "zstd"} {
		body := append(pack(encoding, "one, "), pack(encoding, "two")...)
		if got, err := readAll(encoding, body); got != "one, two" || err != nil {
			t.Errorf("%s: %q, %v", encoding, got, err)
		}
		if got := Prefix(encoding, body, 100); string(got) != "one, two" {
			t.Errorf("%s: %q is the beginning", encoding, got)
		}
		if _, err := readAll(encoding, append(pack(encoding, "one"), "and more"...)); err == nil {
			t.Errorf("%s: what follows and is not packed is no fault", encoding)
		}
	}
}

func TestEncodingsThatAreNotKnown(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"lzma", "gzip, br", "br,br", "compress", "x"} {
		if _, err := Reader(encoding, strings.NewReader("")); !errors.Is(err, ErrEncoding) {
			t.Errorf("%s: %v", encoding, err)
		}
		if got := Prefix(encoding, []byte("abc"), 10); got == nil || len(got) > 0 {
			t.Errorf("%s: %q is the beginning", encoding, got)
		}
	}
	if got, err := readAll("identity", []byte("abc")); got != "abc" || err != nil {
		t.Errorf("identity: %q, %v", got, err)
	}
}

// What a body unpacks to is bounded by whoever reads it, and so is what that
// takes of memory.
func TestABombIsBounded(t *testing.T) {
	const limit = 1 << 20
	for _, encoding := range encodings {
		bomb := pack(encoding, strings.Repeat("\x00", 64<<20))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n := len(Prefix(encoding, bomb, limit))
		runtime.ReadMemStats(&after)
		if n != limit {
			t.Errorf("%s: %d bytes came out, want %d", encoding, n, limit)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
			t.Errorf("%s: %d KiB were taken to read 1 MiB of 64", encoding, took>>10)
		}
	}
}

// A page that is on its way is looked at as far as it has come.
func TestPrefixOfWhatHasCome(t *testing.T) {
	t.Parallel()
	for _, encoding := range append(encodings, "", "identity") {
		body := []byte(text)
		if !Identity(encoding) {
			body = pack(encoding, text)
		}
		for _, limit := range []int{0, 1, 1000, len(text), len(text) + 1} {
			if got := string(Prefix(encoding, body, limit)); got != text[:min(limit, len(text))] {
				t.Errorf("%q: %d bytes of %d are not the beginning", encoding, len(got), limit)
			}
		}
		if got := string(Prefix(encoding, body[:len(body)*3/4], len(text))); got == "" || !strings.HasPrefix(text, got) {
			t.Errorf("%q: of three quarters %d bytes are read", encoding, len(got))
		}
	}
	if got := Prefix("", []byte("abcd"), 2); cap(got) != 2 {
		t.Error("who appends to the beginning writes over the rest")
	}
}

// Enough is before a limit's worth has come unpacked only for pages that pack
// badly; then less is looked at, and never nothing.
func TestEnough(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		encoding string
		n        int
		want     bool
	}{{"", 99, false}, {"", 100, true}, {"identity", 100, true}, {"gzip", 24, false}, {"gzip", 25, true}} {
		if got := Enough(tt.encoding, tt.n, 100); got != tt.want {
			t.Errorf("%d bytes, %q: %v", tt.n, tt.encoding, got)
		}
	}
}
