// Package unpack undoes the content codings of HTTP (RFC 9110 section 8.4.1)
// beside the stream: for those who look at a body that goes on as it came. What
// a body unpacks to is bounded by its readers.
package unpack

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// ErrEncoding says that a body is packed in a way that is not known, or twice.
var ErrEncoding = errors.New("packed in a way that is not known")

// Identity says whether a Content-Encoding is none.
func Identity(encoding string) bool { return encoding == "" || strings.EqualFold(encoding, "identity") }

// Enough says whether so many bytes, as they came, hold limit bytes of what
// they unpack to: packed pages rarely hold less than four times as many.
func Enough(encoding string, n, limit int) bool {
	if Identity(encoding) {
		return n >= limit
	}
	return n >= limit/4
}

// Prefix returns the beginning of a body, never nil: what the bytes that have
// come unpack to, limit at most, whatever they claim to hold. A body that is
// packed in a way that is not known is an empty one.
func Prefix(encoding string, raw []byte, limit int) []byte {
	if Identity(encoding) {
		return raw[:min(len(raw), limit):min(len(raw), limit)]
	}
	page := make([]byte, 0, min(4*len(raw), limit))
	r, err := Reader(encoding, bytes.NewReader(raw))
	if err != nil {
		return page
	}
	defer r.Close()
	b := bytes.NewBuffer(page)
	_, _ = io.Copy(b, io.LimitReader(r, int64(limit))) // a body that is not all there yet, or damaged: what there is
	return b.Bytes()
}

// Reader unpacks r. Its user bounds how much is read of it. Closing it leaves
// r open.
func Reader(encoding string, r io.Reader) (io.ReadCloser, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return io.NopCloser(r), nil
	case "gzip", "x-gzip":
		return gzip.NewReader(r)
	case "deflate":
		return zlib.NewReader(r)
	case "br":
		return io.NopCloser(brotli.NewReader(r)), nil
	case "zstd":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20)) // RFC 9659
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return nil, ErrEncoding
}
