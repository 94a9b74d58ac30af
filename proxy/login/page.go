package login

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"mime"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// MaxPage is how much of a page, unpacked, is looked at.
const MaxPage = 256 << 10

func isHTML(contentType string) bool {
	t, _, _ := mime.ParseMediaType(contentType)
	return t == "text/html" || t == "application/xhtml+xml"
}

// Enough says whether so many bytes of a page, as they came, hold all that is
// looked at: packed ones rarely hold less than four times as many.
func Enough(encoding string, n int) bool {
	if identity(encoding) {
		return n >= MaxPage
	}
	return n >= MaxPage/4
}

func identity(encoding string) bool { return encoding == "" || strings.EqualFold(encoding, "identity") }

// Unpack returns the beginning of a page, never nil: what the bytes that have
// come unpack to, MaxPage at most, whatever they claim to hold. A page that is
// packed in a way that is not known, or twice, is an empty one.
func Unpack(encoding string, raw []byte) []byte {
	if identity(encoding) {
		return raw[:min(len(raw), MaxPage):min(len(raw), MaxPage)]
	}
	page := make([]byte, 0, min(4*len(raw), MaxPage))
	r, err := unpacker(strings.ToLower(strings.TrimSpace(encoding)), bytes.NewReader(raw))
	if err != nil {
		return page
	}
	b := bytes.NewBuffer(page)
	_, _ = io.Copy(b, io.LimitReader(r, MaxPage)) // a page that is not all there yet, or damaged: what there is
	if c, ok := r.(io.Closer); ok {
		c.Close()
	}
	return b.Bytes()
}

func unpacker(encoding string, r io.Reader) (io.Reader, error) {
	switch encoding {
	case "gzip", "x-gzip":
		return gzip.NewReader(r)
	case "deflate":
		return zlib.NewReader(r)
	case "br":
		return brotli.NewReader(r), nil
	case "zstd":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20)) // RFC 9659
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return nil, errEncoding
}

func contains(page []byte, text string) bool { return bytes.Contains(page, []byte(text)) }
