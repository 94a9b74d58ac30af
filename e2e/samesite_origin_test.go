package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// sighting is what the origin saw of one request, without its preflight. Of one
// that the proxy sent twice it is all that either carried.
type sighting struct {
	method string
	names  string // of the session's cookies in it, sorted
	values string // theirs, without repetition
}

// pages is the origin of the pages and of what they ask for:
//
//	/page      a page, with the Referrer-Policy "policy" or, with "frame" and
//	           "sandbox", a frame in it
//	/login     sets the session's cookies; /mark one more
//	/hop       redirects to "to", by 307 what was posted
//	/t/…       notes the request; the body is the names of the cookies that came
//	/seen      returns when all paths in its body were asked for
type pages struct {
	rides func(path string) bool // the answer to that path sets a cookie

	mu         sync.Mutex // guards what follows
	more       *sync.Cond // there is another sighting
	seen       map[string]sighting
	asked      map[string]bool   // by preflights, too
	preflights map[string]string // path → Cookie header of the preflight
}

func newPages(rides func(string) bool) *pages {
	p := &pages{rides: rides, seen: map[string]sighting{}, asked: map[string]bool{}, preflights: map[string]string{}}
	p.more = sync.NewCond(&p.mu)
	return p
}

func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, q := w.Header(), r.URL.Query()
	h.Set("Cache-Control", "no-store")
	switch {
	case r.URL.Path == "/page":
		h.Set("Content-Type", "text/html")
		h.Set("Referrer-Policy", q.Get("policy"))
		io.WriteString(w, "<!doctype html><title>A page</title><body>")
		if frame := q.Get("frame"); frame != "" {
			fmt.Fprintf(w, "<iframe src=%q %s></iframe>", frame, q.Get("sandbox"))
		}
	case r.URL.Path == "/login":
		for name, more := range sessionCookies {
			h.Add("Set-Cookie", name+"=shared; Path=/; Max-Age=3600"+more)
		}
	case r.URL.Path == "/mark":
		h.Set("Set-Cookie", "mark=1; Path=/never; Max-Age=3600")
	case r.URL.Path == "/hop":
		allowOrigin(h, r)
		status := http.StatusFound
		if r.Method == http.MethodPost {
			status = http.StatusTemporaryRedirect
		}
		http.Redirect(w, r, q.Get("to"), status)
	case r.URL.Path == "/seen":
		p.waitFor(w, r)
	case strings.HasPrefix(r.URL.Path, "/t/"):
		p.note(w, r)
	default:
		http.NotFound(w, r)
	}
}

// allowOrigin lets a script of the asking page read the answer, and ask with
// credentials, or lets all without: ways end in, or hold, "star" or "echo".
func allowOrigin(h http.Header, r *http.Request) {
	h.Set("Access-Control-Allow-Headers", "X-Asked")
	h.Set("Access-Control-Allow-Methods", "PUT")
	if strings.Contains(r.URL.Path, "-star") {
		h.Set("Access-Control-Allow-Origin", "*")
	} else if origin := r.Header.Get("Origin"); origin != "" {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Credentials", "true")
	}
}

func (p *pages) note(w http.ResponseWriter, r *http.Request) {
	var names, values []string
	for _, c := range r.Cookies() {
		if _, ok := sessionCookies[c.Name]; ok {
			names, values = append(names, c.Name), append(values, c.Value)
		}
	}
	sent := words(names...)

	p.mu.Lock()
	before := p.seen[r.URL.Path]
	s := sighting{r.Method, words(before.names, sent), words(append(values, before.values)...)}
	p.asked[r.URL.Path] = true
	if r.Method == http.MethodOptions {
		p.preflights[r.URL.Path] = r.Header.Get("Cookie")
	} else {
		p.seen[r.URL.Path] = s
	}
	p.mu.Unlock()
	p.more.Broadcast()

	allowOrigin(w.Header(), r)
	if r.Method == http.MethodOptions || p.rides(r.URL.Path) {
		w.Header().Set("Set-Cookie", "rode=1; Path=/never; Max-Age=3600; SameSite=None; Secure")
	}
	if strings.Contains(r.URL.Path, "/eventsource-") {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", sent)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, sent)
}

// words joins texts: each of their words once, sorted.
func words(texts ...string) string {
	all := strings.Fields(strings.Join(texts, " "))
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

// waitFor answers when all paths were asked for, or after a while.
func (p *pages) waitFor(w http.ResponseWriter, r *http.Request) {
	var paths []string
	if err := json.NewDecoder(r.Body).Decode(&paths); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
	defer cancel()
	defer context.AfterFunc(ctx, p.more.Broadcast)()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		paths = slices.DeleteFunc(paths, func(path string) bool { return p.asked[path] })
		if len(paths) == 0 {
			return
		}
		if ctx.Err() != nil {
			http.Error(w, "never sent: "+strings.Join(paths, " "), http.StatusGatewayTimeout)
			return
		}
		p.more.Wait()
	}
}
