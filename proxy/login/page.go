package login

import (
	"bytes"
	"mime"

	"github.com/sessionproxy/sessionproxy/proxy/unpack"
)

// MaxPage is how much of a page, unpacked, is looked at.
const MaxPage = 256 << 10

func isHTML(contentType string) bool {
	t, _, _ := mime.ParseMediaType(contentType)
	return t == "text/html" || t == "application/xhtml+xml"
}

// Enough says whether so many bytes of a page, as they came, hold all that is
// looked at.
func Enough(encoding string, n int) bool { return unpack.Enough(encoding, n, MaxPage) }

// Unpack returns the beginning of a page, never nil: what is looked at of it.
func Unpack(encoding string, raw []byte) []byte { return unpack.Prefix(encoding, raw, MaxPage) }

func contains(page []byte, text string) bool { return bytes.Contains(page, []byte(text)) }
