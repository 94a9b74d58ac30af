package proxy_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/captchaai"
	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

const apiKey = "0123456789abcdef0123456789abcdef"

// Sitekeys as the service takes them.
const (
	caseKeyV2    = "6LcaseV2AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	caseKeyOther = "6LcaseOtherBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"
	caseKeyV3    = "6LcaseV3CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC"
)

// served is a world whose tokens come from the service: the client of the real
// one asks, at its pace, a double that issues what the verifier knows.
type served struct {
	*formWorld
	service *captchatest.Service
	key     string // of the account that the proxy has
	threads int    // 0: as the plan says
}

func newServed(t *testing.T, o captchatest.Options, pages map[string]string, rules ...config.Captcha) *served {
	t.Helper()
	return (&served{key: apiKey}).start(t, o, pages, rules...)
}

func (s *served) start(t *testing.T, o captchatest.Options, pages map[string]string, rules ...config.Captcha) *served {
	t.Helper()
	v := captchatest.NewVerifier(
		captchatest.Widget{SiteKey: caseKeyV2, Secret: "s-v2", Hostnames: []string{world.Host}},
		captchatest.Widget{SiteKey: caseKeyOther, Secret: "s-other"},
		captchatest.Widget{SiteKey: caseKeyV3, Secret: "s-v3", Action: "login"},
		captchatest.Widget{SiteKey: "0xTurnstile", Secret: "s-turnstile", Turnstile: true},
	)
	o.Key, o.Verifier = apiKey, v
	if o.Threads == 0 {
		o.Threads = 5
	}
	if o.Outcome == nil {
		o.Outcome = func(captchatest.Task) captchatest.Outcome { return captchatest.Outcome{After: time.Second} }
	}
	s.service = captchatest.New(o)
	server := httptest.NewServer(s.service)
	t.Cleanup(server.Close)
	client, err := captchaai.New(captchaai.Options{Key: captchaai.Key(s.key), URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	service := captcha.Service{Solver: client, Threads: s.threads, Plan: func(ctx context.Context) (int, error) {
		threads, err := client.ThreadsInfo(ctx)
		return threads.Total, err
	}}
	tokens := captcha.New(captcha.Options{Store: captcha.NewMemory(), Service: service})
	t.Cleanup(tokens.Close)
	s.formWorld = newFormWorldOf(t, world.Options{Tokens: tokens}, pages, rules...)
	s.verifier = v
	return s
}

// send posts a form, however long its token takes.
func (s *served) send(t *testing.T, via world.Way, path, kind, body string, fields ...string) *world.Answer {
	t.Helper()
	r := world.Request(t, http.MethodPost, via.URL(path), strings.NewReader(body), append(fields, "Content-Type", kind)...)
	resp, err := s.Client(via).Do(r)
	if err != nil {
		t.Errorf("post %s: %v", path, err)
		return &world.Answer{Response: &http.Response{}}
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return &world.Answer{Response: resp, Text: string(text)}
}

// sendAll posts forms at once, and wants that the site gets each.
func (s *served) sendAll(t *testing.T, posts ...func() *world.Answer) []got {
	t.Helper()
	var wg sync.WaitGroup
	for _, post := range posts {
		wg.Go(func() {
			if a := post(); a.StatusCode != http.StatusOK {
				t.Errorf("answered %d: %s", a.StatusCode, a.Text)
			}
		})
	}
	wg.Wait()
	var all []got
	for range len(s.posts) {
		all = append(all, <-s.posts)
	}
	if len(all) != len(posts) {
		t.Fatalf("the site got %d of %d forms", len(all), len(posts))
	}
	return all
}

// filled posts a form and returns it as the site saw it.
func (s *served) filled(t *testing.T, via world.Way, path, kind, body string, fields ...string) got {
	t.Helper()
	if a := s.send(t, via, path, kind, body, fields...); a.StatusCode != http.StatusOK {
		t.Fatalf("answered %d: %s", a.StatusCode, a.Text)
	}
	g := <-s.posts
	if g.length != int64(len(g.body)) {
		t.Errorf("its Content-Length is %d, of %d bytes", g.length, len(g.body))
	}
	return g
}

// between returns what the form has in place of TOKEN.
func between(t *testing.T, g got, form string) string {
	t.Helper()
	before, after, _ := strings.Cut(form, "TOKEN")
	body := string(g.body)
	if !strings.HasPrefix(body, before) || !strings.HasSuffix(body, after) || len(body) <= len(before)+len(after) {
		t.Fatalf("the site saw %q, want %q", body, form)
	}
	return body[len(before) : len(body)-len(after)]
}

// verifies wants that the site's verifier takes a token, once.
func (s *served) verifies(t *testing.T, secret, token string) captchatest.Verdict {
	t.Helper()
	v := s.verifier.Check(secret, token)
	if !v.Success {
		t.Errorf("the verifier refuses %.8s…: %v", token, v.ErrorCodes)
	}
	if again := s.verifier.Check(secret, token); again.Success {
		t.Error("the verifier takes a token twice")
	}
	return v
}

// wantTask checks what the nth task was asked with: names and values in turn.
func (s *served) wantTask(t *testing.T, n int, params ...string) {
	t.Helper()
	tasks := s.service.Tasks()
	if len(tasks) != n+1 {
		t.Fatalf("the service had %d tasks, want %d: %+v", len(tasks), n+1, tasks)
	}
	for i := 0; i < len(params); i += 2 {
		if got := tasks[n].Params.Get(params[i]); got != params[i+1] {
			t.Errorf("task %d: %s=%q, want %q", n, params[i], got, params[i+1])
		}
	}
}

const checkbox = `<!doctype html><script src="https://www.google.com/recaptcha/api.js" async defer></script>
<form method=post action=/login><input name=a><div class=g-recaptcha data-sitekey=` + caseKeyV2 + `></div></form>`

var auto = config.Captcha{Type: config.CaptchaAuto}

// The cases are those that the protocol of the service and the forms of sites
// have been found to go wrong in: each on a proxied page, in clear and by HTTPS,
// over HTTP/1.1 and HTTP/2. They take the service's own time, which forbids
// asking sooner than 5 s, side by side.
func TestTheTenCases(t *testing.T) {
	t.Parallel()
	var side sync.WaitGroup // all at once: they wait, and cost next to nothing
	defer side.Wait()
	for _, c := range []struct {
		name string
		test func(*testing.T, world.Way)
	}{
		{"1 v2, urlencoded, an id that is an integer, not ready twice", caseV2},
		{"2 plain replies, and a token that looks like an error", casePlainText},
		{"3 two widgets, two forms at once, a file beside one", caseTwoWidgets},
		{"4 v3 with a field of its own in JSON", caseV3},
		{"4 v3 with an action that is not the page's", caseWrongAction},
		{"5 the variants of Turnstile", caseTurnstile},
		{"5 Turnstile's published sitekeys and secrets", caseTestKeys},
		{"6 invisible and Enterprise, a decoy, a widget in a frame", caseHostilePage},
		{"7 five forms on two threads", caseThreads},
		{"7 threads that others hold", caseBusy},
		{"7 threads that others hold for good", caseBusyForGood},
		{"8 a key that nobody knows", caseBadKey},
		{"9 faults of the service", caseFaults},
		{"10 a token that grows too old, and a form that is sent again", caseExpiry},
		{"10 what can't be solved", caseUnsolvable},
		{"10 a form that a person filled, and a postback of ASP.NET", caseFilled},
	} {
		for _, via := range []world.Way{world.Plain, world.TunnelH1, world.TunnelH2} {
			side.Go(func() { t.Run(c.name+", "+via.Name, func(t *testing.T) { c.test(t, via) }) })
		}
	}
}

func caseV2(t *testing.T, via world.Way) {
	s := newServed(t, captchatest.Options{Outcome: func(captchatest.Task) captchatest.Outcome {
		return captchatest.Outcome{After: 22 * time.Second} // it is first asked after 15
	}}, map[string]string{"/login": checkbox}, auto)
	s.Get(t, via, "/login")
	g := s.filled(t, via, "/login", urlencoded, "a=1&b=%7e+x&g-recaptcha-response=&c=%E2%82%AC", "Referer", via.URL("/login"))
	s.verifies(t, "s-v2", between(t, g, "a=1&b=%7e+x&g-recaptcha-response=TOKEN&c=%E2%82%AC"))
	s.wantTask(t, 0, "method", "userrecaptcha", "googlekey", caseKeyV2, "pageurl", via.URL("/login"), "json", "1", "invisible", "", "version", "")
	if n := len(s.service.Calls("/res.php")); n < 3 {
		t.Errorf("asked %d times, of which the task was not ready twice", n)
	}
}

func casePlainText(t *testing.T, via world.Way) {
	s := newServed(t, captchatest.Options{
		Switches: captchatest.Switches{AlwaysPlain: true},
		Outcome: func(captchatest.Task) captchatest.Outcome {
			return captchatest.Outcome{After: 6 * time.Second, Token: "abc|ERROR_x-def"}
		},
	}, nil, config.Captcha{Type: "turnstile", SiteKey: "0xTurnstile", Page: "https://shop.test/"})
	g := s.filled(t, via, "/", urlencoded, "cf-turnstile-response=")
	if got := between(t, g, "cf-turnstile-response=TOKEN"); got != "abc%7CERROR_x-def" {
		t.Errorf("the token is %q", got)
	}
	last := time.Time{}
	for _, c := range s.service.Calls("/res.php") {
		if c.Params.Get("action") != "get" {
			continue
		}
		if !last.IsZero() && c.At.Sub(last) < 5*time.Second {
			t.Errorf("asked again after %v", c.At.Sub(last))
		}
		last = c.At
	}
}

func caseTwoWidgets(t *testing.T, via world.Way) {
	s := newServed(t, captchatest.Options{}, map[string]string{"/": `<form method=post action=/one><div class=g-recaptcha data-sitekey=` + caseKeyV2 + `></div></form>
<form method=post action=/two enctype=multipart/form-data><div class=g-recaptcha data-sitekey=` + caseKeyOther + `></div></form>`}, auto)
	s.Get(t, via, "/")
	file := make([]byte, 1<<20)
	_, _ = rand.Read(file)
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	_ = m.WriteField("g-recaptcha-response", "TOKEN")
	part, _ := m.CreateFormFile("file", "a.bin")
	_, _ = part.Write(file)
	_ = m.Close()
	two := b.String()
	const one = "g-recaptcha-response=TOKEN&x=1"
	empty := func(form string) string { return strings.Replace(form, "TOKEN", "", 1) }
	for _, g := range s.sendAll(t,
		func() *world.Answer { return s.send(t, via, "/one", urlencoded, empty(one), "Referer", via.URL("/")) },
		func() *world.Answer {
			return s.send(t, via, "/two", m.FormDataContentType(), empty(two), "Referer", via.URL("/"))
		},
	) {
		if g.header.Get("Content-Type") == urlencoded {
			s.verifies(t, "s-v2", between(t, g, one))
		} else {
			s.verifies(t, "s-other", between(t, g, two))
		}
	}
	if n := len(s.service.Tasks()); n != 2 {
		t.Errorf("%d tasks for two forms", n)
	}
}

const scorePage = `<script src="https://www.google.com/recaptcha/api.js?render=` + caseKeyV3 + `"></script>
<script>grecaptcha.ready(() => grecaptcha.execute('` + caseKeyV3 + `', {action: 'login'}).then(send))</script>`

func caseV3(t *testing.T, via world.Way) {
	s := newServed(t, captchatest.Options{}, map[string]string{"/app": scorePage}, config.Captcha{Type: "recaptcha_v3", Path: "/api/login", Field: "captcha"})
	s.Get(t, via, "/app")
	g := s.filled(t, via, "/api/login", "application/json", `{"user":1.0,"captcha":""}`, "Referer", via.URL("/app"))
	if v := s.verifies(t, "s-v3", between(t, g, `{"user":1.0,"captcha":"TOKEN"}`)); v.Action != "login" {
		t.Errorf("its action is %q", v.Action)
	}
	s.wantTask(t, 0, "method", "userrecaptcha", "version", "v3", "action", "login", "min_score", "0.3", "googlekey", caseKeyV3, "pageurl", via.URL("/app"))
}

func caseWrongAction(t *testing.T, via world.Way) {
	s := newServed(t, captchatest.Options{}, map[string]string{"/app": scorePage},
		config.Captcha{Type: "recaptcha_v3", SiteKey: caseKeyV3, Action: "home", Page: via.URL("/app"), Field: "captcha"})
	for range 3 {
		s.Get(t, via, "/app")
	}
	g := s.filled(t, via, "/api/login", "application/json", `{"captcha":""}`)
	if v := s.verifier.Check("s-v3", between(t, g, `{"captcha":"TOKEN"}`)); v.Success || v.ErrorCodes[0] != "action-mismatch" {
		t.Errorf("the site's verifier says %+v", v)
	}
	const line = "a page shows a captcha otherwise than its rule says, and the site may refuse its tokens: correct the rule"
	s.WantRecord(t, line, "site", "shop", "page", "/app", "action", "home", "page's action", "login")
	if n := s.Count(line); n != 1 {
		t.Errorf("the log says %d times that the rule is wrong", n)
	}
}

func caseTurnstile(t *testing.T, via world.Way) {
	form := func(widget string) string { return "<form method=post>" + widget + "</form>" }
	const script = `<script src="https://challenges.cloudflare.com/turnstile/v0/api.js"></script>`
	pages := map[string]string{
		"/plain":  script + form(`<div class=cf-turnstile data-sitekey=0xTurnstile></div>`),
		"/named":  script + form(`<div class=cf-turnstile data-sitekey=0xTurnstile data-response-field-name=ts></div>`),
		"/compat": strings.Replace(script, "api.js", "api.js?compat=recaptcha", 1) + form(`<div class=g-recaptcha data-sitekey=0xTurnstile></div>`),
		"/action": script + form(`<div class=cf-turnstile data-sitekey=0xTurnstile data-action=signup></div>`),
	}
	s := newServed(t, captchatest.Options{}, pages, auto)
	var forms []func() *world.Answer
	for path, field := range map[string]string{"/plain": "cf-turnstile-response", "/named": "ts", "/compat": "g-recaptcha-response", "/action": "cf-turnstile-response"} {
		s.Get(t, via, path)
		forms = append(forms, func() *world.Answer {
			return s.send(t, via, path, urlencoded, field+"=&at="+path, "Referer", via.URL(path))
		})
	}
	for _, g := range s.sendAll(t, forms...) {
		pair, path, _ := strings.Cut(string(g.body), "&at=")
		field, token, _ := strings.Cut(pair, "=")
		if v := s.verifies(t, "s-turnstile", token); (v.Action == "signup") != (path == "/action") {
			t.Errorf("%s: the action of %s's token is %q", path, field, v.Action)
		}
	}
	for _, task := range s.service.Tasks() {
		if task.Method != "turnstile" || task.Params.Get("sitekey") != "0xTurnstile" {
			t.Errorf("the service was asked %+v", task)
		}
	}
}

func caseTestKeys(t *testing.T, via world.Way) {
	s := newServed(t, captchatest.Options{}, map[string]string{"/": `<form method=post><div class=cf-turnstile data-sitekey=1x00000000000000000000AA></div></form>`}, auto)
	s.Get(t, via, "/")
	token := between(t, s.filled(t, via, "/", urlencoded, "cf-turnstile-response=", "Referer", via.URL("/")), "cf-turnstile-response=TOKEN")
	for secret, want := range map[string]string{
		"1x0000000000000000000000000000000AA": "", "2x0000000000000000000000000000000AA": "invalid-input-response",
		"3x0000000000000000000000000000000AA": "timeout-or-duplicate",
	} {
		if got := strings.Join(s.verifier.Check(secret, token).ErrorCodes, ","); got != want {
			t.Errorf("the secret %.2s says %q, want %q", secret, got, want)
		}
	}
	if v := s.verifier.Check("1x0000000000000000000000000000000AA", "03AFreal"); v.Success {
		t.Error("a secret for tests takes a real token")
	}
	if len(s.posts) != 0 || len(s.service.Calls("/in.php")) != 0 {
		t.Errorf("it was sent %d times more, and the service asked %d times", len(s.posts), len(s.service.Calls("/in.php")))
	}
}

func caseHostilePage(t *testing.T, via world.Way) {
	const decoy = `<textarea name=g-recaptcha-response id=g-recaptcha-response-100000></textarea><iframe src="https://widgets.test/frame"></iframe>`
	frame := config.Captcha{Type: "recaptcha_v2", Path: "/framed", SiteKey: caseKeyOther, Page: "https://widgets.test/frame"}
	s := newServed(t, captchatest.Options{}, map[string]string{
		"/invisible":  decoy + `<form method=post><div class=g-recaptcha data-sitekey=` + caseKeyV2 + ` data-size=invisible></div></form>`,
		"/enterprise": `<script src="https://www.google.com/recaptcha/enterprise.js"></script>` + decoy + `<form method=post><div class=g-recaptcha data-sitekey=` + caseKeyOther + `></div></form>`,
	}, frame, auto)
	var forms []func() *world.Answer
	for _, path := range []string{"/invisible", "/enterprise", "/framed"} {
		if path != "/framed" {
			s.Get(t, via, path)
		}
		forms = append(forms, func() *world.Answer {
			return s.send(t, via, path, urlencoded, "g-recaptcha-response=&g-recaptcha-response-100000=&at="+path, "Referer", via.URL(path))
		})
	}
	for _, g := range s.sendAll(t, forms...) {
		_, path, _ := strings.Cut(string(g.body), "at=")
		between(t, g, "g-recaptcha-response=TOKEN&g-recaptcha-response-100000=&at="+path)
	}
	want := map[string][2]string{via.URL("/invisible"): {"1", ""}, via.URL("/enterprise"): {"", "1"}, "https://widgets.test/frame": {"", ""}}
	for _, task := range s.service.Tasks() {
		page := task.Params.Get("pageurl")
		if got, ok := want[page]; !ok || got != [2]string{task.Params.Get("invisible"), task.Params.Get("enterprise")} {
			t.Errorf("a task for %s is asked with %v", page, task.Params)
		}
		delete(want, page)
	}
	if len(want) > 0 {
		t.Errorf("no task for %v", want)
	}
}

// score is a widget that is solved in five seconds.
var score = config.Captcha{Type: "recaptcha_v3", SiteKey: caseKeyV3, Action: "login", Page: "https://shop.test/", Field: "g"}

// five posts five forms at once, and says how many of them the site got.
func (s *served) five(t *testing.T, via world.Way) int {
	t.Helper()
	var forms sync.WaitGroup
	for i := range 5 {
		forms.Go(func() {
			if a := s.send(t, via, "/", urlencoded, fmt.Sprintf("g=&n=%d", i)); a.StatusCode != http.StatusOK && !strings.Contains(a.Header.Get("Proxy-Status"), "captcha_failed") {
				t.Errorf("answered %d: %s", a.StatusCode, a.Text)
			}
		})
	}
	forms.Wait()
	n := len(s.posts)
	for range n {
		form := string((<-s.posts).body)
		s.verifies(t, "s-v3", strings.TrimPrefix(form[:strings.Index(form, "&")], "g="))
	}
	return n
}

func caseThreads(t *testing.T, via world.Way) {
	s := newServed(t, captchatest.Options{Threads: 2}, nil, score)
	if n := s.five(t, via); n != 5 || s.service.MostOpen() > 2 || s.service.Refused() > 0 {
		t.Errorf("%d of 5 forms came; %d tasks were open at once of 2 threads, %d submissions found none", n, s.service.MostOpen(), s.service.Refused())
	}
}

func caseBusy(t *testing.T, via world.Way) {
	s := newServed(t, captchatest.Options{Threads: 3, Switches: captchatest.Switches{NoSlot: via == world.TunnelH1}}, nil, score)
	s.service.SetForeign(1)
	if n := s.five(t, via); n != 5 || s.service.Refused() == 0 {
		t.Errorf("%d of 5 forms came; %d submissions found no thread", n, s.service.Refused())
	}
	var in []time.Time
	for _, c := range s.service.Calls("/in.php") {
		in = append(in, c.At)
	}
	if n := len(in); n > 5+s.service.Refused() || in[3].Sub(in[0]) < 5*time.Second {
		t.Errorf("%d submissions, the fourth after %v: want it to wait 5 s", n, in[3].Sub(in[0]))
	}
}

func caseBusyForGood(t *testing.T, via world.Way) {
	rule := score
	rule.MaxWait = 7 * time.Second
	s := newServed(t, captchatest.Options{Threads: 1}, nil, rule)
	s.service.SetForeign(1)
	if n := s.five(t, via); n != 0 || len(s.service.Tasks()) != 0 {
		t.Errorf("%d of 5 forms came, %d tasks were taken", n, len(s.service.Tasks()))
	}
	if n := len(s.service.Calls("/in.php")); n == 0 || n > 3 {
		t.Errorf("%d submissions in 7 s", n)
	}
}

func caseBadKey(t *testing.T, via world.Way) {
	if _, err := captchaai.New(captchaai.Options{Key: captchaai.Key(apiKey[1:])}); err == nil || strings.Contains(err.Error(), apiKey[1:]) {
		t.Errorf("a key of 31 characters: %v", err)
	}
	const wrong = "ffffffffffffffffffffffffffffffff"
	s := (&served{key: wrong, threads: 2}).start(t, captchatest.Options{}, nil, score)
	for range 3 {
		a := s.send(t, via, "/", urlencoded, "g=")
		if a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.Header.Get("Proxy-Status"), "captcha_failed") {
			t.Errorf("answered %d, %s", a.StatusCode, a.Text)
		}
	}
	if n := len(s.service.Calls("/in.php")); n != 1 {
		t.Errorf("the service was asked %d times with a key that it refused at once", n)
	}
	for _, r := range append(s.All(), s.Audit.All()...) {
		if strings.Contains(r.String(), wrong) {
			t.Errorf("the key stands in the log: %s", r)
		}
	}
}

func caseFaults(t *testing.T, via world.Way) {
	s := newServed(t, captchatest.Options{}, nil, score)
	s.service.Fail("/in.php", captchatest.Fault{Status: 502, Body: "<html>bad gateway</html>"})
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for t.Context().Err() == nil && len(s.service.Tasks()) == 0 { // what is asked before is of the plan
			time.Sleep(10 * time.Millisecond)
		}
		s.service.Fail("/res.php", captchatest.Fault{Reset: true}, captchatest.Fault{Body: `{"status":1,"requ`})
	}()
	g := s.filled(t, via, "/", urlencoded, "g=&a=1")
	<-asked
	token := between(t, g, "g=TOKEN&a=1")
	s.verifies(t, "s-v3", token)
	tasks := s.service.Tasks()
	if len(tasks) != 1 || len(s.service.Calls("/in.php")) != 2 {
		t.Fatalf("%d tasks of %d submissions", len(tasks), len(s.service.Calls("/in.php")))
	}
	polls := 0
	for _, c := range s.service.Calls("/res.php") {
		if c.Params.Get("action") == "get" {
			if polls++; c.Params.Get("id") != tasks[0].ID {
				t.Errorf("asked for task %s, want %s", c.Params.Get("id"), tasks[0].ID)
			}
		}
	}
	if polls != 3 {
		t.Errorf("asked %d times, want 3", polls)
	}
	for _, r := range append(s.All(), s.Audit.All()...) {
		for what, secret := range map[string]string{"key": apiKey, "token": token, "task's id": tasks[0].ID} {
			if strings.Contains(r.String(), secret) {
				t.Errorf("the %s stands in the log: %s", what, r)
			}
		}
	}
}

func caseUnsolvable(t *testing.T, via world.Way) {
	var forms sync.WaitGroup
	for code, want := range map[string]int{"ERROR_CAPTCHA_UNSOLVABLE": 3, "ERROR_BAD_TOKEN_OR_PAGEURL": 1} {
		forms.Go(func() {
			s := newServed(t, captchatest.Options{Outcome: func(captchatest.Task) captchatest.Outcome { return captchatest.Outcome{Code: code} }}, nil, score)
			a := s.send(t, via, "/", urlencoded, "g=")
			if a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.Text, "could not be solved") {
				t.Errorf("%s: answered %d, %s", code, a.StatusCode, a.Text)
			}
			if n := len(s.service.Tasks()); n != want {
				t.Errorf("%s: %d tasks, want %d", code, n, want)
			}
		})
	}
	forms.Wait()
}

func caseFilled(t *testing.T, via world.Way) {
	s := newServed(t, captchatest.Options{}, map[string]string{"/Login.aspx": strings.Replace(checkbox, "/login", "/Login.aspx", 1)}, auto)
	s.Get(t, via, "/Login.aspx")
	const view = "__VIEWSTATE=%2FwEPDwUKMTY1%3d&__VIEWSTATEGENERATOR=C2EE9ABB&__EVENTVALIDATION=%2fwEdAAUv%2B&ctl00%24Main%24User=a+b"
	person := view + "&g-recaptcha-response=03AFperson&ctl00%24Main%24Go="
	if g := s.filled(t, via, "/Login.aspx", urlencoded, person, "Referer", via.URL("/Login.aspx")); string(g.body) != person {
		t.Errorf("the site saw %q", g.body)
	}
	if n := len(s.service.Calls("/in.php")); n != 0 {
		t.Errorf("the service was asked %d times for a form that a person filled", n)
	}
	g := s.filled(t, via, "/Login.aspx", urlencoded, view+"&g-recaptcha-response=&ctl00%24Main%24Go=", "Referer", via.URL("/Login.aspx"))
	s.verifies(t, "s-v2", between(t, g, view+"&g-recaptcha-response=TOKEN&ctl00%24Main%24Go="))
}

// caseExpiry has a form wait for its upstream until its token is too old: it
// goes back to be solved anew. And a form that is sent twice gets two.
func caseExpiry(t *testing.T, via world.Way) {
	u := world.NewUpstream(t, world.UpstreamOptions{})
	s := &solver{verifier: captchatest.NewVerifier(widgets...)}
	s.old.Store(true)
	tokens := captcha.New(captcha.Options{Store: captcha.NewMemory(), Service: captcha.Service{Solver: s, Threads: 10}})
	t.Cleanup(tokens.Close)
	lease := leaving(func(p *config.Pool) { p.Capacity, p.Wait, p.Idle = 1, 20*time.Second, 10*time.Millisecond }, u)
	release := make(chan struct{})
	pages := map[string]string{}
	w := newFormWorldOf(t, world.Options{Tokens: tokens, Config: lease}, pages, config.Captcha{Type: "recaptcha_v2", SiteKey: "6Lv2", Page: "https://shop.test/"})
	w.held = release
	busy := make(chan error, 1)
	go func() { // another worker has the only upstream
		resp, err := w.ClientAs(via, worker(1)).Do(world.Request(t, http.MethodGet, via.URL("/held"), nil))
		if err == nil {
			resp.Body.Close()
		}
		busy <- err
	}()
	world.Eventually(t, "the upstream is leased", func() bool { return w.holding.Load() })
	post := func() (token string) {
		r := world.Request(t, http.MethodPost, via.URL("/"), strings.NewReader("g-recaptcha-response=&a=1"), "Content-Type", urlencoded)
		resp, err := w.ClientAs(via, worker(2)).Do(r)
		if err != nil {
			t.Error(err)
			return ""
		}
		resp.Body.Close()
		return between(t, <-w.posts, "g-recaptcha-response=TOKEN&a=1")
	}
	first := make(chan string, 1)
	go func() { first <- post() }()
	world.Eventually(t, "its token is solved", func() bool { return len(s.seen()) == 1 })
	s.old.Store(false)
	time.Sleep(oldRest) // until that one is too old
	close(release)
	if err := <-busy; err != nil {
		t.Error(err)
	}
	used := map[string]bool{<-first: true, post(): true, post(): true}
	if len(used) != 3 || len(s.seen()) != 4 {
		t.Errorf("three forms had %d tokens of %d solves; want three of four, since one grew too old", len(used), len(s.seen()))
	}
	for token := range used {
		if v := s.verifier.Check("s-v2", token); !v.Success {
			t.Errorf("the verifier says %v", v.ErrorCodes)
		}
	}
}
