package session

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"testing"
	"time"
)

// sentByChromium holds what Chromium 156 sent: one case a line. The page "at"
// answers with the Set-Cookie lines "set"; then each URL of "sent" is opened as
// a new page, with that Cookie header. Cases named hs-… follow the public
// http-state suite, with later dates.
//
//go:embed testdata/sent.jsonl
var sentByChromium []byte

// storedByChromium holds what Chromium 156 stored of the one line "set" that
// the page "at" answered with at "now", in seconds since 1970.
//
//go:embed testdata/stored.jsonl
var storedByChromium []byte

// rfcOrder are headers in which Chromium's order of equal paths differs from
// the RFC's: it lets a cookie lose its place when its value changes.
var rfcOrder = map[string]string{
	"order-update-keeps-age": "a=3; b=2",
}

func TestSendsWhatChromiumSends(t *testing.T) {
	t.Parallel()
	type row struct {
		ID   string            `json:"id"`
		At   string            `json:"at"`
		Set  []string          `json:"set"`
		Sent map[string]string `json:"sent"`
	}
	for _, tt := range rows[row](t, sentByChromium) {
		t.Run(tt.ID, func(t *testing.T) {
			jar := new(Jar).reply(t, tt.At, tt.Set...)
			for url, want := range tt.Sent {
				if rfc, ok := rfcOrder[tt.ID]; ok {
					want = rfc
				}
				if got := jar.header(t, url); got != want {
					t.Errorf("%q set by %s, sent to %s: Cookie %q, want %q", tt.Set, tt.At, url, got, want)
				}
			}
		})
	}
}

func TestStoresWhatChromiumStores(t *testing.T) {
	t.Parallel()
	type stored struct {
		Pair     string `json:"pair"`
		Domain   string `json:"domain"` // begins with a dot unless host-only
		Path     string `json:"path"`
		Expires  int64  `json:"expires"`  // seconds since 1970, 0 for session cookies
		Flags    string `json:"flags"`    // S: Secure, H: HttpOnly
		SameSite string `json:"sameSite"` // "" for none or unknown
	}
	type row struct {
		Now    int64   `json:"now"`
		At     string  `json:"at"`
		Set    string  `json:"set"`
		Stored *stored `json:"stored"` // nil: nothing
	}
	for _, tt := range rows[row](t, storedByChromium) {
		now := time.Unix(tt.Now, 0)
		jar, _ := new(Jar).Apply(Update{Cookies: parse(t, tt.At, now, tt.Set)}, now.UnixMicro())
		var got *stored
		for i, c := range jar.Cookies() {
			got = &stored{
				Pair: jar.sent[i].pair(), Domain: c.Domain, Path: c.Path,
				SameSite: []string{"", "None", "Lax", "Strict"}[c.SameSite],
			}
			if !c.HostOnly {
				got.Domain = "." + c.Domain
			}
			if c.Secure {
				got.Flags += "S"
			}
			if c.HTTPOnly {
				got.Flags += "H"
			}
			if !c.Expires.IsZero() {
				got.Expires = c.Expires.Unix()
			}
		}
		switch want := tt.Stored; {
		case got == nil || want == nil:
			if got != nil || want != nil {
				t.Errorf("%.200q set by %s: stored %+v, want %+v", tt.Set, tt.At, got, want)
			}
		default:
			// Chromium read its clock a moment before "now" was noted.
			if d := want.Expires - got.Expires; want.Expires != 0 && got.Expires != 0 && -5 < d && d < 5 {
				got.Expires = want.Expires
			}
			if *got != *want {
				t.Errorf("%.200q set by %s: stored %+v, want %+v", tt.Set, tt.At, *got, *want)
			}
		}
	}
}

// rows reads a file of one JSON value a line.
func rows[T any](t *testing.T, file []byte) []T {
	t.Helper()
	var all []T
	lines := bufio.NewScanner(bytes.NewReader(file))
	for lines.Scan() {
		var row T
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		all = append(all, row)
	}
	if err := lines.Err(); err != nil || len(all) == 0 {
		t.Fatalf("%d rows: %v", len(all), err)
	}
	return all
}
