package proxy

import (
	"bytes"
	"context"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha/page"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/unpack"
	"github.com/sessionproxy/sessionproxy/session"
)

// maxDocument is how much of a document, unpacked, is looked at for widgets.
const maxDocument = 1 << 20

// learn looks at a document on its way to the client, and remembers which
// widgets it shows.
func (x *exchange) learn(r *http.Request, resp *http.Response) {
	if x.site == nil || len(x.site.forms) == 0 || !x.isDocument(r, resp) {
		return
	}
	address, err := url.Parse(x.address(r))
	if err != nil {
		return
	}
	resp.Body = &watched{
		ReadCloser: resp.Body, encoding: first(resp.Header, "Content-Encoding"), limit: maxDocument, length: resp.ContentLength,
		look: func(raw []byte, encoding string) {
			doc := unpack.Prefix(encoding, raw, maxDocument)
			if !mayShow(doc) {
				return
			}
			widgets := x.p.seen.Note(x.site.Key, address.String(), page.Scan(bytes.NewReader(doc), address))
			x.compare(address, widgets)
			x.shown(address.String(), widgets)
		},
	}
}

// isDocument says whether a response is a document that a client is shown as a
// page: no frame, and nothing that a script asked for.
func (x *exchange) isDocument(r *http.Request, resp *http.Response) bool {
	if r.Method != http.MethodGet || resp.StatusCode != http.StatusOK || x.whose == session.Cross {
		return false
	}
	if dest := first(r.Header, "Sec-Fetch-Dest"); dest != "" && dest != "document" || len(r.Header["X-Requested-With"]) > 0 {
		return false
	}
	t, _, _ := mime.ParseMediaType(first(resp.Header, "Content-Type"))
	return t == "text/html" || t == "application/xhtml+xml"
}

// mayShow says whether a document is worth more than a look.
func mayShow(doc []byte) bool {
	return slices.ContainsFunc([]string{"captcha", "turnstile"}, func(word string) bool { return bytes.Contains(doc, []byte(word)) })
}

// compare tells the operator, once for each rule, of a page that shows a widget
// otherwise than the rule says.
func (x *exchange) compare(address *url.URL, widgets []page.Widget) {
	for i := range x.site.forms {
		f := &x.site.forms[i]
		at := slices.IndexFunc(widgets, f.contradicts)
		if at < 0 || slices.ContainsFunc(widgets, f.shownBy) || f.told.Swap(true) {
			continue
		}
		x.p.log.Warn("a page shows a captcha otherwise than its rule says, and the site may refuse its tokens: correct the rule",
			"site", x.site.Name, "page", address.Path, "key", f.ask.Key().String(), "type", f.Type, "page's type", string(widgets[at].Type),
			"action", f.Action, "page's action", widgets[at].Action)
	}
}

// shown begins to solve what a client was shown, where a rule wants that.
func (x *exchange) shown(address string, widgets []page.Widget) {
	if x.whose != session.Own {
		return
	}
	for _, w := range widgets {
		i := slices.IndexFunc(x.site.forms, func(f formRule) bool {
			return f.shownBy(w) && f.Prefetch == config.PrefetchPage && f.ask.Static == ""
		})
		if i < 0 {
			continue
		}
		ask, now := x.site.forms[i].askFor(w, address), time.Now()
		x.p.prefetches.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), storeLimit)
			defer cancel()
			x.p.tokens.Prefetch(ctx, ask, now)
		})
	}
}
