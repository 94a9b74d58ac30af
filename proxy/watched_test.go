package proxy

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// A page is looked at before its last byte goes to the client, who may send the
// page's form before anybody reads the body's end.
func TestAPageIsLookedAtBeforeItsClientHasAllOfIt(t *testing.T) {
	t.Parallel()
	const page = "<html>"
	for _, tt := range []struct {
		name   string
		length int64
		want   string // after the last byte, before the end
	}{
		{"its length is known", int64(len(page)), page},
		{"its length is not", -1, ""},
	} {
		looked := ""
		b := &watched{
			ReadCloser: io.NopCloser(iotest.OneByteReader(strings.NewReader(page))), limit: 1 << 10, length: tt.length,
			look: func(raw []byte, _ string) { looked = string(raw) },
		}
		if _, err := io.ReadFull(b, make([]byte, len(page))); err != nil {
			t.Fatal(err)
		}
		if looked != tt.want {
			t.Errorf("%s: looked at %q, want %q", tt.name, looked, tt.want)
		}
		if _, err := io.ReadAll(b); err != nil || looked != page {
			t.Errorf("%s: in the end %q, %v", tt.name, looked, err)
		}
	}
}
