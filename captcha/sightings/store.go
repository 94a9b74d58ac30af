package sightings

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/form"
	"github.com/sessionproxy/sessionproxy/captcha/page"
)

// Bounds of what is remembered.
const (
	MaxPages = 500                 // of a site; the ones that were seen longest ago go first
	Life     = 30 * 24 * time.Hour // of a page that nobody has seen again
)

// Store keeps what the pages of sites show. A page is a few bytes that only
// this package reads, and never none. Each method returns soon after ctx ends.
type Store interface {
	// Pages returns all pages of a site by their URLs, and the revision that
	// they make up: "" where there are none. Where that is the one that the
	// caller has, it returns no pages.
	Pages(ctx context.Context, site, have string) (pages map[string][]byte, revision string, err error)
	// Swap puts a page in the place of old, nil for none, and returns what
	// the store then has: now, or what another has put there. The page
	// counts as seen, lives [Life], and is one of [MaxPages].
	Swap(ctx context.Context, site, url string, old, now []byte) (has []byte, err error)
}

// stored is a widget as stores have it.
type stored struct {
	Type    captcha.Type `json:"type"`
	SiteKey string       `json:"sitekey"`
	Action  string       `json:"action,omitempty"`
	Field   string       `json:"field,omitempty"`
	Method  string       `json:"method,omitempty"`
	Form    string       `json:"form,omitempty"` // where it is sent
}

func encode(widgets []page.Widget) []byte {
	all := make([]stored, len(widgets))
	for i, w := range widgets {
		all[i] = stored{w.Type, w.SiteKey, w.Action, w.Field, w.Form.Method, w.Form.Action}
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err) // of strings
	}
	return b
}

var errStored = errors.New("this is no page that a proxy has seen")

// decode reads what encode wrote, or perhaps somebody else.
func decode(pageURL string, b []byte) ([]page.Widget, error) {
	var all []stored
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, errStored
	}
	if u, err := url.Parse(pageURL); err != nil || u.RawQuery != "" || captcha.CheckPage(pageURL) != nil || len(all) == 0 || len(all) > page.MaxWidgets {
		return nil, errStored
	}
	widgets := make([]page.Widget, len(all))
	for i, w := range all {
		key := captcha.Key{Site: "x", SiteKey: w.SiteKey, Action: w.Action}
		if key.Check() != nil || !slices.Contains(captcha.Types, w.Type) {
			return nil, errStored
		}
		if _, err := form.ParseField(w.Field); err != nil && w.Field != "" {
			return nil, errStored
		}
		widgets[i] = page.Widget{Type: w.Type, SiteKey: w.SiteKey, Action: w.Action, Field: w.Field, Form: page.Form{Method: w.Method, Action: w.Form}}
	}
	return widgets, nil
}
