package proxy_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
	"github.com/sessionproxy/sessionproxy/captcha/sightings"
	"github.com/sessionproxy/sessionproxy/captcha/sightings/filestore"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

// solver solves at once, or as it is told to, and has the verifier know its
// tokens.
type solver struct {
	verifier *captchatest.Verifier
	err      error
	hold     chan struct{} // nil: at once
	old      atomic.Bool   // its tokens are good for oldRest

	mu    sync.Mutex
	tasks []captcha.Task
}

func (s *solver) Solve(ctx context.Context, t captcha.Task, open captcha.Opener) (captcha.Answer, error) {
	slot, err := open(ctx)
	if err != nil {
		return captcha.Answer{}, err
	}
	defer slot.Done()
	s.mu.Lock()
	s.tasks = append(s.tasks, t)
	s.mu.Unlock()
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return captcha.Answer{}, ctx.Err()
		}
	}
	if s.err != nil {
		return captcha.Answer{}, s.err
	}
	u, _ := url.Parse(t.Page)
	token := "03AF" + rand.Text()
	s.verifier.Issue(captchatest.Issued{Token: token, SiteKey: t.SiteKey, Action: t.Action, Hostname: u.Hostname(), At: time.Now()})
	issued := time.Now()
	if s.old.Load() {
		issued = issued.Add(oldRest - t.Type.Life())
	}
	return captcha.Answer{Token: token, Issued: issued}, nil
}

// oldRest is what is left of an old token's life.
const oldRest = 2 * time.Second

func (s *solver) seen() []captcha.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]captcha.Task(nil), s.tasks...)
}

// The widgets of the site, as its provider knows them.
var widgets = []captchatest.Widget{
	{SiteKey: "6Lv2", Secret: "s-v2", Hostnames: []string{world.Host}},
	{SiteKey: "6Lother", Secret: "s-other"},
	{SiteKey: "6Lv3", Secret: "s-v3", Action: "login"},
	{SiteKey: "0xTurnstile", Secret: "s-turnstile", Turnstile: true},
}

const (
	urlencoded = "application/x-www-form-urlencoded"
	loginPage  = `<!doctype html><form method=post action=/login><input name=a><div class=g-recaptcha data-sitekey=6Lv2></div></form>`
)

// got is a request as the site saw it.
type got struct {
	header http.Header
	length int64
	body   []byte
	query  string
}

// formWorld is a site with pages, that keeps what is posted to it.
type formWorld struct {
	*world.World
	solver   *solver
	verifier *captchatest.Verifier
	posts    chan got
	held     chan struct{} // until it is closed, /held is not answered
	holding  atomic.Bool
}

func newFormWorld(t *testing.T, pages map[string]string, rules ...config.Captcha) *formWorld {
	t.Helper()
	return newFormWorldOf(t, world.Options{}, pages, rules...)
}

func newFormWorldOf(t *testing.T, o world.Options, pages map[string]string, rules ...config.Captcha) *formWorld {
	t.Helper()
	v := captchatest.NewVerifier(widgets...)
	w := &formWorld{solver: &solver{verifier: v}, verifier: v, posts: make(chan got, 100)}
	if o.Tokens == nil {
		o.Tokens = captcha.New(captcha.Options{Store: captcha.NewMemory(), Service: captcha.Service{Solver: w.solver, Threads: 10}})
		t.Cleanup(o.Tokens.Close)
	}
	more := o.Config
	o.Config = func(c *config.Config) {
		if more != nil {
			more(c)
		}
		for i := range rules {
			if rules[i].Method == "" {
				rules[i].Method = http.MethodPost
			}
			if rules[i].Budget.PerHour == 0 {
				rules[i].Budget.PerHour = 20
			}
		}
		c.Sites[0].Captcha = rules
	}
	o.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			w.holding.Store(true)
			<-w.held
			return
		}
		if page, ok := pages[r.URL.Path]; ok && r.Method == http.MethodGet && r.URL.RawQuery == "" {
			rw.Header().Set("Content-Type", "text/html; charset=utf-8")
			if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
				rw.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(rw)
				defer z.Close()
				_, _ = io.WriteString(z, page)
				return
			}
			_, _ = io.WriteString(rw, page)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("the site reads a body: %v", err)
		}
		w.posts <- got{r.Header.Clone(), r.ContentLength, body, r.URL.RawQuery}
	})
	w.World = world.New(t, o)
	return w
}

// post sends a form and returns what the site saw of it.
func (w *formWorld) post(t *testing.T, via world.Way, path, kind, body string, fields ...string) got {
	t.Helper()
	a := world.Do(t, w.Client(via), world.Request(t, http.MethodPost, via.URL(path), strings.NewReader(body), append(fields, "Content-Type", kind)...))
	if a.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", a.Status, a.Text)
	}
	return <-w.posts
}

// A page with a widget, and a form whose field is empty: only the field changes.
func TestAFormGetsAToken(t *testing.T) {
	t.Parallel()
	for _, via := range world.Ways {
		t.Run(via.Name, func(t *testing.T) {
			t.Parallel()
			w := newFormWorld(t, map[string]string{"/login": loginPage}, config.Captcha{Type: config.CaptchaAuto})
			w.Get(t, via, "/login", "Accept-Encoding", "gzip")
			page := via.URL("/login")
			for range 2 { // the same form again gets another token
				g := w.post(t, via, "/login", urlencoded, "a=1&b=%7e+x&g-recaptcha-response=&c=%E2%82%AC", "Referer", page+"?next=/account")
				before, rest, ok := strings.Cut(string(g.body), "a=1&b=%7e+x&g-recaptcha-response=")
				token, after, _ := strings.Cut(rest, "&")
				if !ok || before != "" || after != "c=%E2%82%AC" || g.length != int64(len(g.body)) {
					t.Fatalf("the site saw %q, of length %d", g.body, g.length)
				}
				if v := w.verifier.Check("s-v2", token); !v.Success {
					t.Errorf("the site's verifier says %v", v.ErrorCodes)
				}
			}
			for _, task := range w.solver.seen() {
				if want := (captcha.Task{Type: captcha.RecaptchaV2, Site: world.Host, SiteKey: "6Lv2", Page: page}); task != want {
					t.Errorf("solved %+v, want %+v", task, want)
				}
			}
			if n := count(t, w.Proxy, "sessionproxy_captcha_fills_total", "site", "shop", "type", "recaptcha_v2", "source", "solved", "outcome", "filled"); n != 2 {
				t.Errorf("%v fills were counted, want 2", n)
			}
		})
	}
}

func TestWhichFormsGetAToken(t *testing.T) {
	t.Parallel()
	const page = "https://shop.test/login"
	v2 := config.Captcha{Type: "recaptcha_v2", Path: "/login", SiteKey: "6Lv2", Page: page}
	missing, always, inJSON, turnstile, v3 := v2, v2, v2, v2, v2
	missing.When, always.When, inJSON.Field = config.WhenMissing, config.WhenAlways, "$.captcha.token"
	turnstile.Type, turnstile.SiteKey = "turnstile", "0xTurnstile"
	v3.Type, v3.SiteKey, v3.Action, v3.Field = "recaptcha_v3", "6Lv3", "login", "captcha"
	static := config.Captcha{Type: "turnstile", Solver: config.SolverStatic, Token: "XXXX.DUMMY.TOKEN.XXXX"}
	auto := config.Captcha{Type: config.CaptchaAuto}
	const view = "__VIEWSTATE=%2FwEPDwUKMTY1&__EVENTVALIDATION=a%2Bb%3D%3D&"
	for _, tt := range []struct {
		name       string
		rule       config.Captcha
		path, kind string
		body       string
		want       string // TOKEN stands for one; "" as it came
		fields     []string
	}{
		{"an empty field", v2, "/login", urlencoded, "g-recaptcha-response=&a=1", "g-recaptcha-response=TOKEN&a=1", nil},
		{"a postback of ASP.NET", v2, "/login", urlencoded, view + "g-recaptcha-response=&b=", view + "g-recaptcha-response=TOKEN&b=", nil},
		{"a form of Django, with its cookie", v2, "/login", urlencoded, "csrfmiddlewaretoken=x&g-recaptcha-response=", "csrfmiddlewaretoken=x&g-recaptcha-response=TOKEN", []string{"Cookie", "csrftoken=x"}},
		{"a field that is there twice", v2, "/login", urlencoded, "g-recaptcha-response=&a=1&g-recaptcha-response=", "g-recaptcha-response=TOKEN&a=1", nil},
		{"a field that a person filled", v2, "/login", urlencoded, "g-recaptcha-response=03human&a=1", "", nil},
		{"a filled one, always", always, "/login", urlencoded, "g-recaptcha-response=03human&a=1", "g-recaptcha-response=TOKEN&a=1", nil},
		{"no such field", v2, "/login", urlencoded, "a=1", "", nil},
		{"no such field, and it is added", missing, "/login", urlencoded, "a=1", "a=1&g-recaptcha-response=TOKEN", nil},
		{"another path", v2, "/search", urlencoded, "g-recaptcha-response=", "", nil},
		{"JSON", inJSON, "/login", "application/json", `{"user": 1.0, "captcha": {"token": ""}}`, `{"user": 1.0, "captcha": {"token": "TOKEN"}}`, nil},
		{"JSON that is broken", inJSON, "/login", "application/json", `{"captcha": {"token": ""}`, "", nil},
		{"v3 with a field of its own", v3, "/login", "application/json; charset=utf-8", `{"user":1.0,"captcha":""}`, `{"user":1.0,"captcha":"TOKEN"}`, nil},
		{"Turnstile", turnstile, "/login", urlencoded, "cf-turnstile-response=", "cf-turnstile-response=TOKEN", nil},
		{"a constant", static, "/any", urlencoded, "cf-turnstile-response=", "cf-turnstile-response=XXXX.DUMMY.TOKEN.XXXX", nil},
		{"no form", v2, "/login", "text/plain", "g-recaptcha-response=", "", nil},
		{"a page of another site", v2, "/login", urlencoded, "g-recaptcha-response=", "", []string{"Origin", "https://evil.test"}},
		{"what another field vouches for", v2, "/login", urlencoded, "g-recaptcha-response=", "", []string{"Content-Digest", "sha-256=:AA==:"}},
		{"what a webhook's sender signed", v2, "/login", urlencoded, "g-recaptcha-response=", "", []string{"X-Hub-Signature-256", "sha256=aa"}},
		{"a body of two types", v2, "/login", urlencoded, "g-recaptcha-response=", "", []string{"Content-Type", "application/json"}},
		{"a boundary that is said twice", v2, "/login", `multipart/form-data; boundary=a; boundary=b`, "--a\r\nContent-Disposition: form-data; name=\"g-recaptcha-response\"\r\n\r\n\r\n--a--\r\n", "", nil},
		{"auto, from no page", auto, "/login", urlencoded, "g-recaptcha-response=", "", nil},
		{"auto, from a page without a widget", auto, "/login", urlencoded, "g-recaptcha-response=", "", []string{"Referer", "https://shop.test/about"}},
		{"auto, from a page of another site", auto, "/login", urlencoded, "g-recaptcha-response=", "", []string{"Referer", "https://evil.test/login"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newFormWorld(t, map[string]string{"/login": loginPage}, tt.rule)
			g := w.post(t, world.TunnelH1, tt.path, tt.kind, tt.body, tt.fields...)
			want := tt.want
			if want == "" {
				want = tt.body
			}
			before, after, filled := strings.Cut(want, "TOKEN")
			if token := strings.TrimSuffix(strings.TrimPrefix(string(g.body), before), after); filled && strings.HasPrefix(token, "03AF") {
				want = before + token + after
			}
			if string(g.body) != want || g.length != int64(len(want)) {
				t.Errorf("the site saw %q of length %d, want %q", g.body, g.length, want)
			}
			if solved := len(w.solver.seen()) > 0; solved != (filled && tt.rule.Solver != config.SolverStatic) {
				t.Errorf("a token was solved: %v", solved)
			}
		})
	}
}

// Each of two forms of a page gets the token of its own widget, with 50 MiB
// beside it, and all other bytes as they came.
func TestTwoFormsOfOnePage(t *testing.T) {
	t.Parallel()
	w := newFormWorld(t, map[string]string{"/": `<form method=post action=/one><div class=g-recaptcha data-sitekey=6Lv2></div></form>
<form method=post action=/two enctype=multipart/form-data><div class=g-recaptcha data-sitekey=6Lother></div></form>`}, config.Captcha{Type: config.CaptchaAuto})
	via := world.TunnelH2
	w.Get(t, via, "/")
	file := make([]byte, 50<<20)
	_, _ = rand.Read(file)
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	part, _ := m.CreateFormFile("file", "a.bin")
	_, _ = part.Write(file)
	_ = m.WriteField("g-recaptcha-response", "")
	_ = m.WriteField("last", "1")
	_ = m.Close()
	sum := sha256.Sum256(b.Bytes())
	resp, err := w.Client(via).Do(world.Request(t, http.MethodPost, via.URL("/two"), &b, "Content-Type", m.FormDataContentType(), "Referer", via.URL("/")))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	g := <-w.posts
	at := bytes.Index(g.body, []byte("03AF"))
	if at < 0 || g.length != int64(len(g.body)) {
		t.Fatalf("no token is in %d bytes", len(g.body))
	}
	token := string(g.body[at : at+30])
	if v := w.verifier.Verify("s-other", token); !v.Success {
		t.Errorf("the verifier says %v", v.ErrorCodes)
	}
	if sha256.Sum256(bytes.Replace(g.body, []byte(token), nil, 1)) != sum {
		t.Error("other bytes changed")
	}
	g = w.post(t, via, "/one", urlencoded, "g-recaptcha-response=", "Referer", via.URL("/"))
	if v := w.verifier.Verify("s-v2", strings.TrimPrefix(string(g.body), "g-recaptcha-response=")); !v.Success {
		t.Errorf("the verifier says %v", v.ErrorCodes)
	}
}

func TestAPackedFormLeavesUnpackedWhereItIsFilled(t *testing.T) {
	t.Parallel()
	pack := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, s)
		_ = z.Close()
		return b.String()
	}
	w := newFormWorld(t, nil, config.Captcha{Type: "recaptcha_v2", SiteKey: "6Lv2", Page: "https://shop.test/"})
	g := w.post(t, world.Plain, "/", urlencoded, pack("g-recaptcha-response=&a=1"), "Content-Encoding", "gzip")
	if !strings.HasPrefix(string(g.body), "g-recaptcha-response=03AF") || len(g.header["Content-Encoding"]) > 0 || g.length != int64(len(g.body)) {
		t.Errorf("the site saw %q, %v", g.body, g.header)
	}
	for _, tt := range []struct{ name, body, encoding string }{
		{"it is filled", pack("g-recaptcha-response=x"), "gzip"},
		{"it is damaged", pack("g-recaptcha-response=")[:20], "gzip"},
		{"nobody knows how it is packed", "g-recaptcha-response=", "lzma"},
	} {
		if g := w.post(t, world.Plain, "/", urlencoded, tt.body, "Content-Encoding", tt.encoding); string(g.body) != tt.body || g.header.Get("Content-Encoding") != tt.encoding {
			t.Errorf("%s: the site saw %q", tt.name, g.body)
		}
	}
}

func TestAFormThatIsTooLargePassesUntouched(t *testing.T) {
	t.Parallel()
	w := newFormWorld(t, nil, config.Captcha{Type: "recaptcha_v2", SiteKey: "6Lv2", Page: "https://shop.test/"})
	for _, announced := range []bool{true, false} {
		body := "g-recaptcha-response=&a=" + strings.Repeat("x", 64<<20)
		r := world.Request(t, http.MethodPost, world.Plain.URL("/"), strings.NewReader(body), "Content-Type", urlencoded)
		if !announced {
			r.ContentLength = -1
		}
		resp, err := w.Client(world.Plain).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if g := <-w.posts; sha256.Sum256(g.body) != sha256.Sum256([]byte(body)) {
			t.Errorf("announced %v: the body changed", announced)
		}
	}
}

func TestAFormIsFramedAsItCame(t *testing.T) {
	t.Parallel()
	w := newFormWorld(t, nil, config.Captcha{Type: "recaptcha_v2", SiteKey: "6Lv2", Page: "https://shop.test/"})
	r := world.Request(t, http.MethodPost, world.TunnelH1.URL("/"), strings.NewReader("g-recaptcha-response="), "Content-Type", urlencoded)
	r.ContentLength = -1
	world.Do(t, w.Client(world.TunnelH1), r)
	if g := <-w.posts; g.length != -1 || !strings.HasPrefix(string(g.body), "g-recaptcha-response=03AF") {
		t.Errorf("a chunked form came as %q, of length %d", g.body, g.length)
	}
	r = world.Request(t, http.MethodPost, world.TunnelH1.URL("/"), strings.NewReader("g-recaptcha-response="), "Content-Type", urlencoded)
	r.ContentLength, r.Trailer = -1, http.Header{"Content-Digest": {"sha-256=:AA==:"}}
	world.Do(t, w.Client(world.TunnelH1), r)
	if g := <-w.posts; string(g.body) != "g-recaptcha-response=" {
		t.Errorf("a form that its trailer vouches for came as %q", g.body)
	}
	g := w.post(t, world.TunnelH1, "/", urlencoded, "g-recaptcha-response=", "Expect", "100-continue")
	if len(g.header["Expect"]) > 0 || !strings.HasPrefix(string(g.body), "g-recaptcha-response=03AF") {
		t.Errorf("one that waits for a 100 came as %q, %v", g.body, g.header)
	}
}

func TestAFormWithoutAToken(t *testing.T) {
	t.Parallel()
	rule := config.Captcha{Type: "recaptcha_v2", SiteKey: "6Lv2", Page: "https://shop.test/", MaxWait: 50 * time.Millisecond}
	forward, unseen, dear := rule, rule, rule
	forward.OnFailure, unseen.SiteKey, dear.Budget.PerHour = config.Forward, "", 1
	for _, tt := range []struct {
		name string
		rule config.Captcha
		hold bool
		err  error
		says string // "": it is forwarded
	}{
		{"it takes too long", rule, true, nil, "not solved in time"},
		{"it can't be solved", rule, false, fmt.Errorf("no"), "could not be solved"},
		{"and goes on as it came", forward, false, fmt.Errorf("no"), ""},
		{"nobody has seen the widget", unseen, false, nil, "has not seen the page"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newFormWorld(t, nil, tt.rule)
			w.solver.err = tt.err
			if tt.hold {
				w.solver.hold = make(chan struct{})
				defer close(w.solver.hold)
			}
			a := world.Do(t, w.Client(world.TunnelH1), world.Request(t, http.MethodPost, world.TunnelH1.URL("/"), strings.NewReader("g-recaptcha-response="), "Content-Type", urlencoded))
			if tt.says == "" {
				if g := <-w.posts; a.StatusCode != http.StatusOK || string(g.body) != "g-recaptcha-response=" {
					t.Errorf("%s, and the site saw %q", a.Status, g.body)
				}
				return
			}
			if a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.Text, tt.says) || !strings.Contains(a.Header.Get("Proxy-Status"), "captcha_failed") {
				t.Errorf("%s: %s", a.Status, a.Text)
			}
		})
	}
	t.Run("the budget is used up", func(t *testing.T) {
		t.Parallel()
		w := newFormWorld(t, nil, dear)
		w.post(t, world.TunnelH1, "/", urlencoded, "g-recaptcha-response=")
		a := world.Do(t, w.Client(world.TunnelH1), world.Request(t, http.MethodPost, world.TunnelH1.URL("/"), strings.NewReader("g-recaptcha-response="), "Content-Type", urlencoded))
		if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || !strings.Contains(a.Text, "used up") {
			t.Errorf("%s: %s", a.Status, a.Text)
		}
	})
}

// A client that leaves costs nobody a token: the next one gets it.
func TestATokenWhoseClientLeftIsForTheNext(t *testing.T) {
	t.Parallel()
	for _, via := range []world.Way{world.TunnelH1, world.TunnelH2} {
		t.Run(via.Name, func(t *testing.T) {
			t.Parallel()
			w := newFormWorld(t, nil, config.Captcha{Type: "recaptcha_v2", SiteKey: "6Lv2", Page: "https://shop.test/"})
			w.solver.hold = make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			left := make(chan error)
			go func() {
				r := world.Request(t, http.MethodPost, via.URL("/"), strings.NewReader("g-recaptcha-response="), "Content-Type", urlencoded)
				resp, err := w.Client(via).Do(r.WithContext(ctx))
				if err == nil {
					resp.Body.Close()
				}
				left <- err
			}()
			world.Eventually(t, "a solve is under way", func() bool { return len(w.solver.seen()) == 1 })
			cancel()
			<-left
			world.Eventually(t, "the proxy knows that the client left", func() bool {
				return count(t, w.Proxy, "sessionproxy_captcha_fills_total", "outcome", "client_gone") == 1
			})
			close(w.solver.hold)
			w.post(t, via, "/", urlencoded, "g-recaptcha-response=")
			if n := len(w.solver.seen()); n != 1 {
				t.Errorf("%d solves, want the one that was left behind", n)
			}
		})
	}
}

// A token is in a query, too, where a rule says so.
func TestAQueryGetsAToken(t *testing.T) {
	t.Parallel()
	w := newFormWorld(t, nil, config.Captcha{Type: "recaptcha_v2", Method: http.MethodGet, SiteKey: "6Lv2", Page: "https://shop.test/"})
	w.Get(t, world.TunnelH1, "/search?q=%7e&g-recaptcha-response=&z")
	if g := <-w.posts; !strings.HasPrefix(g.query, "q=%7e&g-recaptcha-response=03AF") || !strings.HasSuffix(g.query, "&z") {
		t.Errorf("the site saw %q", g.query)
	}
}

func TestWhatAPageShowedFirstIsSolved(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"/login": loginPage}
	w := newFormWorld(t, pages, config.Captcha{Type: config.CaptchaAuto})
	w.Get(t, world.TunnelH1, "/login", "Sec-Fetch-Dest", "iframe")
	if g := w.post(t, world.TunnelH1, "/login", urlencoded, "g-recaptcha-response=", "Referer", "https://shop.test/login"); len(g.body) != len("g-recaptcha-response=") {
		t.Error("a frame was taken for a page")
	}
	w.Get(t, world.TunnelH1, "/login")
	pages["/login"] = `<form method=post action=/login><div class=g-recaptcha data-sitekey=6Levil></div></form>` + loginPage
	w.Get(t, world.TunnelH1, "/login")
	w.post(t, world.TunnelH1, "/login", urlencoded, "g-recaptcha-response=", "Referer", "https://shop.test/login")
	if tasks := w.solver.seen(); len(tasks) != 1 || tasks[0].SiteKey != "6Lv2" {
		t.Errorf("solved %+v, want the page's own widget", tasks)
	}
}

// What one proxy saw on a page serves the others, and what starts later.
func TestAPageThatAnotherProxySaw(t *testing.T) {
	t.Parallel()
	file, err := filestore.Open(filepath.Join(t.TempDir(), "captchas.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	w := newFormWorldOf(t, world.Options{Widgets: revised{file}}, map[string]string{"/login": loginPage}, config.Captcha{Type: config.CaptchaAuto})
	via := world.TunnelH1
	other := w.AddProxy()
	w.Get(t, via, "/login")
	filled := func(p *world.Proxy) bool {
		a := world.Do(t, p.Client(via), world.Request(t, http.MethodPost, via.URL("/login"), strings.NewReader("g-recaptcha-response="), "Content-Type", urlencoded, "Referer", via.URL("/login")))
		return a.StatusCode == http.StatusOK && len((<-w.posts).body) > len("g-recaptcha-response=")
	}
	world.Eventually(t, "the other proxy fills its form", func() bool { return filled(other) })
	if !filled(w.AddProxy()) {
		t.Error("a proxy that has just started does not know the page")
	}
}

// revised is a store that others write to.
type revised struct{ sightings.Store }

func (r revised) Pages(ctx context.Context, site, _ string) (map[string][]byte, string, error) {
	return r.Store.Pages(ctx, site, "")
}

// What is solved when a client is shown the page is for its form. A page of
// another site that leads there starts nothing.
func TestAPageThatIsShownIsSolvedForAtOnce(t *testing.T) {
	t.Parallel()
	w := newFormWorld(t, map[string]string{"/login": loginPage}, config.Captcha{Type: config.CaptchaAuto, Prefetch: config.PrefetchPage})
	via := world.TunnelH2
	w.Get(t, via, "/login")
	w.post(t, via, "/login", urlencoded, "g-recaptcha-response=", "Referer", via.URL("/login"))
	if n := len(w.solver.seen()); n != 1 {
		t.Fatalf("%d solves, want that of the form: nobody had needed the widget before", n)
	}
	w.Get(t, via, "/login", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
	w.Get(t, via, "/login", "Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
	world.Eventually(t, "a solve begins", func() bool { return len(w.solver.seen()) == 2 })
	w.post(t, via, "/login", urlencoded, "g-recaptcha-response=", "Referer", via.URL("/login"), "Sec-Fetch-Site", "same-origin")
	if n := len(w.solver.seen()); n != 2 {
		t.Errorf("%d solves, want the one that began with the page", n)
	}
	for _, source := range []string{"solved", "prefetch"} {
		if n := count(t, w.Proxy, "sessionproxy_captcha_fills_total", "source", source, "outcome", "filled"); n != 1 {
			t.Errorf("%v fills are counted as %s, want 1", n, source)
		}
	}
	fills := 0
	for _, r := range w.Audit.All() {
		if r.Message == "captcha_fill" {
			fills++
		}
	}
	if fills != 2 {
		t.Errorf("%d lines of audit for two fills", fills)
	}
}

func TestAFillIsWrittenDown(t *testing.T) {
	t.Parallel()
	w := newFormWorld(t, nil, config.Captcha{Type: "recaptcha_v2", SiteKey: "6Lv2", Page: "https://shop.test/login"})
	g := w.post(t, world.TunnelH1, "/", urlencoded, "g-recaptcha-response=")
	token := strings.TrimPrefix(string(g.body), "g-recaptcha-response=")
	fill := w.Audit.WantRecord(t, "captcha_fill", "outcome", "done", "from", "127.0.0.1", "worker", "127.0.0.1", "site", "shop", "session", "default", "target", "shop.test:6Lv2")
	parts := map[string]string{}
	for _, a := range fill.Attrs["captcha"].Group() {
		parts[a.Key] = a.Value.String()
	}
	if seconds, err := strconv.ParseFloat(parts["seconds"], 64); err != nil || seconds <= 0 {
		t.Errorf("it took %q seconds", parts["seconds"])
	}
	delete(parts, "seconds")
	if want := map[string]string{"type": "recaptcha_v2", "for": "form", "page": "/login", "source": "solved"}; !maps.Equal(parts, want) {
		t.Errorf("the line has %v, want %v", parts, want)
	}
	exchange := w.WantRecord(t, "exchange", "captcha", "recaptcha_v2 solved")
	if text := fmt.Sprint(fill, exchange); strings.Contains(text, token) || !strings.Contains(text, "/login") {
		t.Errorf("the logs hold the token, or not the page: %s", text)
	}
}
