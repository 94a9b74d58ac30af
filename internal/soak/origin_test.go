package soak

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
	"github.com/sessionproxy/sessionproxy/certs"
)

// Fields by which a client tells the origin what it should see. Proxies pass
// them as they are.
const (
	fieldWho   = "X-Soak-Session" // SITE/ID
	fieldFloor = "X-Soak-Floor"   // the value of the cookie n that was answered some time ago
)

// origin is all sites of the load, and the recorder.
type origin struct {
	*httptest.Server
	ca       []byte // of all sites
	verifier *captchatest.Verifier
	ledger   *ledger
	dribble  atomic.Bool // it sends each page a few bytes at a time

	sessions sync.Map // SITE/ID → *session
	served   atomic.Int64
	logins   atomic.Int64
}

// session is one session as its site knows it.
type session struct {
	n     atomic.Int64 // the last value of the cookie n
	login atomic.Int64 // the login that is valid
}

// ledger is what went wrong, a few of each kind in words.
type ledger struct {
	mu    sync.Mutex
	count map[string]int
	words map[string][]string
}

func (l *ledger) note(kind, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[kind]++
	if len(l.words[kind]) < 5 {
		l.words[kind] = append(l.words[kind], fmt.Sprintf(format, args...))
	}
}

func (l *ledger) of(kind string) (int, []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count[kind], l.words[kind]
}

// Kinds of faults that the origin sees.
const (
	leaked   = "a cookie of one session in another"
	stale    = "a value older than one that was answered"
	spent    = "a token that was spent before"
	unsolved = "a form without a good token"
)

const siteKey, siteSecret = "6LcSoakSoakSoakSoakSoakSoakSoakSoakSoak0", "secret"

func newOrigin(t *testing.T) *origin {
	o := &origin{
		verifier: captchatest.NewVerifier(captchatest.Widget{SiteKey: siteKey, Secret: siteSecret}),
		ledger:   &ledger{count: map[string]int{}, words: map[string][]string{}},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page", o.page)
	mux.HandleFunc("GET /set", o.set)
	mux.HandleFunc("GET /account", o.account)
	mux.HandleFunc("GET /login", o.loginPage)
	mux.HandleFunc("POST /login", o.login)
	mux.HandleFunc("POST /contact", o.contact)
	mux.HandleFunc("POST /upload", o.upload)
	mux.HandleFunc("GET /events", o.events)
	mux.HandleFunc("GET /ws", o.socket)
	authority, err := certs.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	o.ca = authority.PEM()
	o.Server = httptest.NewUnstartedServer(o.watch(mux))
	o.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}, GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return authority.Leaf(hello.Context(), hello.ServerName)
	}}
	o.EnableHTTP2 = true
	o.Config.ErrorLog = log.New(io.Discard, "", 0) // clients and proxies that are killed
	o.StartTLS()
	t.Cleanup(o.Close)
	return o
}

func (o *origin) session(who string) *session {
	s, _ := o.sessions.LoadOrStore(who, new(session))
	return s.(*session)
}

// watch judges each request before it is answered.
func (o *origin) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.served.Add(1)
		// A recipe's requests are the proxy's own.
		if who := r.Header.Get(fieldWho); who != "" {
			o.judge(w, r, who)
		}
		next.ServeHTTP(w, r)
	})
}

func (o *origin) judge(w http.ResponseWriter, r *http.Request, who string) {
	for _, name := range []string{"id", "sid"} {
		c, err := r.Cookie(name)
		if err == nil && !strings.HasPrefix(c.Value, who+"#") {
			o.ledger.note(leaked, "%s %s of %s came with %s=%s", r.Method, r.URL.Path, who, name, c.Value)
		}
		if err != nil && name == "id" {
			http.SetCookie(w, &http.Cookie{Name: "id", Value: fmt.Sprintf("%s#%x", who, rand.Uint32()), Path: "/", MaxAge: 86400})
		}
	}
	floor, _ := strconv.ParseInt(r.Header.Get(fieldFloor), 10, 64)
	sent := int64(0)
	if c, err := r.Cookie("n"); err == nil {
		sent, _ = strconv.ParseInt(c.Value, 10, 64)
	}
	if sent < floor {
		o.ledger.note(stale, "%s %s of %s came with n=%d, and n=%d was answered before", r.Method, r.URL.Path, who, sent, floor)
	}
}

var filler = strings.Repeat("<p>Nothing in particular, and at some length.</p>\n", 40)

func (o *origin) page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	if o.dribble.Load() {
		for i := 0; i < 20; i++ {
			io.WriteString(w, filler[i*50:(i+1)*50])
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
		return
	}
	io.WriteString(w, filler)
}

// set gives the session's cookie n its next value, which the body says too.
func (o *origin) set(w http.ResponseWriter, r *http.Request) {
	n := o.session(r.Header.Get(fieldWho)).n.Add(1)
	http.SetCookie(w, &http.Cookie{Name: "n", Value: fmt.Sprint(n), Path: "/", MaxAge: 86400})
	fmt.Fprint(w, n)
}

// account is for who is logged in. Now and then the site ends a login.
func (o *origin) account(w http.ResponseWriter, r *http.Request) {
	c, err := r.Cookie("sid")
	if err != nil {
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return
	}
	who, login, _ := strings.Cut(c.Value, "#")
	s := o.session(who)
	if login != fmt.Sprint(s.login.Load()) {
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return
	}
	// Not at a login's own last page: a login that the site ends as it begins is none.
	if r.Header.Get(fieldWho) != "" && rand.IntN(200) == 0 {
		s.login.Add(1)
	}
	io.WriteString(w, "the account of "+who)
}

func (o *origin) loginPage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	io.WriteString(w, `<form method=post action=/login><input name=csrf value=c1><input name=user><input name=password></form>`)
}

func (o *origin) login(w http.ResponseWriter, r *http.Request) {
	who := r.FormValue("user")
	if r.FormValue("csrf") != "c1" || r.FormValue("password") != "soak" {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	o.logins.Add(1)
	n := o.session(who).login.Add(1)
	http.SetCookie(w, &http.Cookie{Name: "sid", Value: fmt.Sprintf("%s#%d", who, n), Path: "/", HttpOnly: true, MaxAge: 86400})
	http.Redirect(w, r, "/account", http.StatusSeeOther)
}

func (o *origin) contact(w http.ResponseWriter, r *http.Request) {
	v := o.verifier.Check(siteSecret, r.FormValue("g-recaptcha-response"))
	if !v.Success {
		kind := unsolved
		if strings.Contains(strings.Join(v.ErrorCodes, " "), "timeout-or-duplicate") {
			kind = spent
		}
		o.ledger.note(kind, "%s: %v", r.Header.Get(fieldWho), v.ErrorCodes)
		http.Error(w, "not a person", http.StatusForbidden)
		return
	}
	io.WriteString(w, "thank you")
}

func (o *origin) upload(w http.ResponseWriter, r *http.Request) {
	h := sha256.New()
	if _, err := io.Copy(h, r.Body); err != nil {
		return // the client went, or its proxy
	}
	io.WriteString(w, hex.EncodeToString(h.Sum(nil)))
}

const beats = 5

func (o *origin) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range beats {
		fmt.Fprintf(w, "data: %d\n\n", i)
		w.(http.Flusher).Flush()
		select {
		case <-time.After(200 * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
}

// socket is an echo: what follows the handshake is opaque to proxies.
func (o *origin) socket(w http.ResponseWriter, _ *http.Request) {
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		http.Error(w, "no socket", http.StatusBadRequest)
		return
	}
	defer conn.Close()
	io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
	io.Copy(conn, rw)
}
