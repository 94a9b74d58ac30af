package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/freeport"
)

// sessionCookies are the cookies of the shop's session, one of each SameSite
// kind, with what their Set-Cookie lines say of it. Chromium takes one that
// says nothing for Lax, but lets it go with a form that posts, too, while it is
// younger than two minutes.
var sessionCookies = map[string]string{
	"strict": "; SameSite=Strict",
	"lax":    "; SameSite=Lax",
	"none":   "; SameSite=None; Secure",
	"unset":  "",
}

// The contexts in which each page does all it can.
const (
	alone = "alone" // the browser holds the cookies; no session is shared with it
	fresh = "fresh" // it holds none, and shares the session
	stale = "stale" // it holds old values, and shares the session
)

// kin is what a page is to the shop.
type kin string

const (
	own     kin = "own"     // a page of the same origin
	sibling kin = "sibling" // of another origin in the same site
	foreign kin = "foreign" // of another, which includes the other scheme, and sandboxed frames
	framed  kin = "framed"  // of the same site, in a frame of a foreign page
)

// cell is one page that does all it can to the shop at https or http.
type cell struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Page    string `json:"page"`
	InFrame bool   `json:"inFrame"`
	kin     kin
}

// cells begin with https: on plain http a browser is known as one only by what
// it sent to https before.
var cells = []cell{
	{"own", "https", "https://shop.test/page", false, own},
	{"sibling", "https", "https://www.shop.test/page", false, sibling},
	{"foreign", "https", "https://evil.test/page", false, foreign},
	{"sandboxed", "https", "https://shop.test/page?frame=/page&sandbox=sandbox='allow-scripts+allow-popups+allow-forms'", true, foreign},
	{"framed", "https", "https://evil.test/page?frame=https://shop.test/page", true, framed},
	{"framed-sibling", "https", "https://evil.test/page?frame=https://www.shop.test/page", true, framed},
	{"plain-own", "https", "http://shop.test/page", false, foreign},
	{"own", "http", "https://shop.test/page", false, foreign},
	{"foreign", "http", "https://evil.test/page", false, foreign},
	{"plain-own", "http", "http://shop.test/page", false, own},
	{"plain-sibling", "http", "http://www.shop.test/page", false, sibling},
	{"plain-foreign", "http", "http://evil.test/page", false, foreign},
	{"plain-quiet", "http", "http://evil.test/page?policy=no-referrer", false, foreign},
}

// What the names of the ways tell, see samesite.mjs.
func opens(way string) bool   { return strings.HasPrefix(way, "open-") }
func posts(way string) bool   { return strings.Contains(way, "-post") }
func detours(way string) bool { return strings.HasSuffix(way, "-foreign") } // by redirects of a foreign site
func toAll(way string) bool   { return strings.Contains(way, "-star") }     // the answer is open to everybody

// preflighted says whether a page of another origin asks first.
func preflighted(way string) bool {
	return strings.HasPrefix(way, "fetch-put-") || strings.HasPrefix(way, "fetch-preflight-")
}

// anonymous says whether a page of another origin asks without credentials by
// that way.
func anonymous(way string) bool {
	return regexp.MustCompile("-omit|-same-origin|-plain-|^(img-anonymous|module|import|font|preload)$").MatchString(way)
}

func (c cell) sameSite() bool { return c.kin == own || c.kin == sibling }

// told says whether a preflight has told that the request has no credentials.
func (c cell) told(way string) bool {
	return (c.kin == sibling || c.From == "framed-sibling") && preflighted(way) && toAll(way)
}

// blind are requests that show nothing of what keeps the cookies back in the
// browser. The page could have them sent in another way.
func (c cell) blind(way string) bool {
	switch {
	case c.kin == framed:
		return (strings.Contains(way, "-omit") || way == "websocket" || c.From == "framed-sibling" && anonymous(way)) && !c.told(way)
	case c.From == "plain-foreign" && c.To == "http":
		return strings.Contains(way, "-noreferrer") && !opens(way)
	case c.From == "plain-quiet":
		return strings.HasPrefix(way, "iframe") || way == "object" || way == "form-get-in-frame"
	}
	return false
}

// cross says whether the proxy is to take the request for a foreign page's own
// doing, which changes nothing, or for one without credentials.
func (c cell) cross(way string) bool {
	return !c.sameSite() && !c.blind(way) && (!opens(way) || posts(way) && (c.kin == foreign || detours(way))) || c.told(way)
}

// want are the cookies of a fresh context's request. It reports false where
// they are only bounded by what the browser alone would send.
func (c cell) want(way string) (names string, exactly bool) {
	all, lax := "lax none strict unset", "lax none unset"
	if c.To == "http" {
		all, lax = "lax strict unset", "lax unset" // None cookies are Secure
	}
	switch {
	case c.cross(way):
		return "", true
	case c.sameSite() && detours(way), c.blind(way):
		return "", false
	case c.From == "plain-foreign" && c.To == "http" && !strings.Contains(way, "-noreferrer"):
		return "", false // judged by a foreign Referer: a link is not told from an image
	case c.To == "http" && strings.Contains(way, "-noreferrer"):
		return lax, true // typed or linked by whom, nothing tells
	case c.kin == foreign, detours(way):
		return lax, true
	}
	return all, true
}

// No request carries a cookie of the session that the same page could not have
// caused to be sent without the proxy, when the browser itself holds the
// session's cookies; no foreign page's request changes the session; and a fresh
// context's own requests carry all of it.
func TestForeignPagesCanDoNoMoreThanWithoutTheProxy(t *testing.T) {
	site := newPages(func(path string) bool {
		for _, c := range cells {
			for _, context := range []string{alone, fresh, stale} {
				if way, ok := strings.CutPrefix(path, c.path(context, "")); ok {
					return c.cross(way)
				}
			}
		}
		return false
	})
	o := newOrigin(t, site)
	dir := t.TempDir()
	config, state := filepath.Join(dir, "sessionproxy.yaml"), filepath.Join(dir, "state")
	write(t, config, fmt.Appendf(nil, `sites:
  - name: shop
    hosts: [shop.test, "*.shop.test"]
    origin: {ca: %[1]s, resolve: {"shop.test:443": %[2]q, "www.shop.test:443": %[2]q, "shop.test:80": %[3]q, "www.shop.test:80": %[3]q}}
  - name: evil
    hosts: [evil.test]
    origin: {ca: %[1]s, resolve: {"evil.test:443": %[2]q, "evil.test:80": %[3]q}}
    cookies: {capture: false, inject: false}
`, o.ca, o.tls, o.plain))
	aside := freeport.Addr(t)
	i := start(t, "serve", "--config", config, "--state", state, "--listen", aside+",session=none")
	scraper := trusting(t, i, state)
	defer scraper.CloseIdleConnections()
	get := func(path string) {
		t.Helper()
		resp, err := scraper.Get("https://shop.test" + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	get("/login")
	before := sessionVersion(t, i, state)

	type context struct {
		Name    string           `json:"name"`
		Proxy   string           `json:"proxy"`
		Cookies []map[string]any `json:"cookies"`
	}
	reads := takeAllWays(t, trustingHome(t, filepath.Join(state, "ca.pem")), map[string]any{
		"seen":  "http://" + o.plain + "/seen",
		"cells": cells,
		"contexts": []context{
			{alone, "http://" + aside, oldCookies()},
			{fresh, "http://" + i.proxy, []map[string]any{}},
			{stale, "http://" + i.proxy, oldCookies()},
		},
	})

	if after := sessionVersion(t, i, state); after != before {
		t.Errorf("the session's version was %d, and is %d after what foreign pages did", before, after)
	}
	if get("/mark"); sessionVersion(t, i, state) == before {
		t.Error("a capture does not change the session's version")
	}
	site.mu.Lock() // the browser is gone, but what it sent may be on its way
	defer site.mu.Unlock()
	for path, cookie := range site.preflights {
		if cookie != "" {
			t.Errorf("a preflight of %s carried cookies", path)
		}
	}
	if got, want := reads[cells[0].path(fresh, "fetch-include-echo")], "lax none strict unset"; got != want {
		t.Errorf("the site's own script in a fresh context read %q, want %q", got, want)
	}
	var faults []string
	for _, c := range cells {
		faults = append(faults, c.faults(site.seen, reads)...)
	}
	if len(faults) > 0 {
		t.Errorf("%d ways of %d requests are wrong:\n"+row+"\n%s", len(faults), len(site.seen),
			"page", "shop", "way", alone, fresh, stale, "fault", strings.Join(faults, "\n"))
	}
}

// path is what a request of the cell asks for.
func (c cell) path(context, way string) string {
	return "/t/" + context + "/" + c.From + "/" + c.To + "/" + way
}

// faults judges all ways of a page: a line of a table for each that is wrong.
func (c cell) faults(seen map[string]sighting, reads map[string]string) []string {
	var ways []string
	var could bounds
	for path, s := range seen {
		if way, ok := strings.CutPrefix(path, c.path(alone, "")); ok {
			ways = append(ways, way)
			could.sent += " " + s.names
			if toAll(way) {
				could.readOfAll += " " + reads[path]
			} else {
				could.readOfOrigin += " " + reads[path]
			}
		}
	}
	if len(ways) == 0 {
		return []string{fmt.Sprintf("%-14s %-6s did nothing", c.From, c.To)}
	}
	slices.Sort(ways)
	var lines []string
	for _, way := range ways {
		a, f, s := c.path(alone, way), c.path(fresh, way), c.path(stale, way)
		if faults := c.judge(way, could, [3]sighting{seen[a], seen[f], seen[s]}, [3]read{readOf(reads, a), readOf(reads, f), readOf(reads, s)}); faults != "" {
			lines = append(lines, fmt.Sprintf(row, c.From, c.To, way, seen[a].names, seen[f].names, seen[s].names, faults))
		}
	}
	return lines
}

// row is a line of the table of faults.
const row = "%-14s %-6s %-44s %-24s %-24s %-24s %s"

// bounds are the names of the cookies that a page can have sent without the
// proxy, and of those that came with what it can have read of answers that are
// open to all, or to its origin.
type bounds struct{ sent, readOfAll, readOfOrigin string }

// read is what a script read, if the browser let it.
type read struct {
	names string
	ok    bool
}

func readOf(reads map[string]string, path string) read {
	names, ok := reads[path]
	return read{names, ok}
}

// judge says what is wrong with a way of the page, given what the origin saw
// and a script read in the contexts alone, fresh and stale.
func (c cell) judge(way string, could bounds, saw [3]sighting, got [3]read) string {
	var faults []string
	fault := func(wrong bool, what string) {
		if wrong {
			faults = append(faults, what)
		}
	}
	sent, readable := saw[0].names, got[0].names
	switch {
	case c.sameSite() && toAll(way):
		// Nothing tells whether a page of the same site asks with credentials.
		// What it does in one way it could do in another.
		sent, readable = could.sent, could.readOfAll
	case c.sameSite():
		sent, readable = could.sent, could.readOfOrigin
	case c.blind(way):
		sent, readable = could.sent, could.sent
	}
	fault(saw[1].method == "" || saw[2].method == "", "not sent")
	fault(!within(saw[1].names, sent), "fresh rides")
	fault(!within(saw[2].names, sent), "stale rides")
	fault(!within(got[1].names, readable) || !within(got[2].names, readable), "more is read")
	// What a simple POST brings can't be asked for again.
	fault(got[0].ok && (!got[1].ok || !got[2].ok) && !(posts(way) && toAll(way) && c.kin != own), "less is read")
	fault(!within(saw[0].names, saw[2].names), "stale loses some")
	fault(!within(saw[0].values, "old") || !within(saw[1].values+" "+saw[2].values, "shared"), "values are not the session's")
	want, exactly := c.want(way)
	fault(exactly && saw[1].names != want, fmt.Sprintf("fresh wants %q", want))
	return strings.Join(faults, ", ")
}

// within says whether all words of one text are in the other.
func within(words, of string) bool {
	all := strings.Fields(of)
	return !slices.ContainsFunc(strings.Fields(words), func(word string) bool { return !slices.Contains(all, word) })
}

// takeAllWays runs samesite.mjs and returns what scripts read, by path.
func takeAllWays(t *testing.T, home string, plan any) map[string]string {
	t.Helper()
	in, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), "node", "samesite.mjs", t.TempDir())
	cmd.Env = append(os.Environ(), "HOME="+home, "CHROMIUM="+chromium)
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(in)), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node samesite.mjs: %v\n%s", err, stderr.String())
	}
	var reads map[string]string
	if err := json.Unmarshal(out, &reads); err != nil {
		t.Fatal(err)
	}
	return reads
}

// oldCookies are the session's cookies as Playwright takes them.
func oldCookies() []map[string]any {
	var all []map[string]any
	for name, more := range sessionCookies {
		c := map[string]any{
			"name": name, "value": "old", "domain": "shop.test", "path": "/",
			"secure": name == "none", "expires": time.Now().Add(time.Hour).Unix(),
		}
		if _, kind, ok := strings.Cut(strings.TrimSuffix(more, "; Secure"), "="); ok {
			c["sameSite"] = kind
		}
		all = append(all, c)
	}
	return all
}

// sessionVersion asks the admin API how often the one session has changed.
func sessionVersion(t *testing.T, i *instance, state string) int64 {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(state, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+i.admin+"/api/v1/sessions?site=shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct {
		Sessions []struct{ Version int64 }
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &list); err != nil || len(list.Sessions) != 1 {
		t.Fatalf("%s: %v; want one session:\n%s", resp.Status, err, b)
	}
	return list.Sessions[0].Version
}
