package login

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/unpack"
	"github.com/sessionproxy/sessionproxy/session"
)

// run is a recipe under way: a small browser.
type run struct {
	ctx    context.Context
	rules  *Rules
	way    Way
	jar    *session.Jar
	values map[string]string
	secret []byte
	page   *url.URL // the last one, for Referer
	judged bool     // the login's own reply has been
	in     bool     // a reply before it was a logged-in one
	out    bool     // the last one was a logged-out one
}

// step makes one request, follows where it leads, and takes what it should.
func (b *run) step(s *step, login bool) error {
	req, err := b.request(s)
	if err != nil {
		return err
	}
	for range maxRedirect + 1 {
		shown := Step{Method: req.Method, URL: plainURL(req.URL)}
		begin := time.Now()
		resp, body, err := b.sure(req)
		shown.Time = time.Since(begin)
		if err != nil {
			b.way.Report(shown)
			return fmt.Errorf("%s %s: %w", shown.Method, shown.URL, HinderedError{Err: plainError(err)})
		}
		shown.Status = resp.StatusCode
		next, err := b.follow(req, resp)
		if next != nil {
			shown.Redirect = plainURL(next.URL)
		} else if err == nil {
			shown.Took, err = b.take(s, resp, body)
		}
		if verr := b.judge(resp, body, login); verr != nil {
			err = verr
		}
		b.way.Report(shown)
		if err != nil {
			return fmt.Errorf("%s %s: %w", shown.Method, shown.URL, err)
		}
		b.page = req.URL
		if next == nil {
			return nil
		}
		req = next
	}
	return fmt.Errorf("more than %d redirects in a row", maxRedirect)
}

// sure sends a request, and asks for a page anew that shows a logged-out session
// after the login: some sites lose one for one request, and what is new in this
// one would be lost with the run.
func (b *run) sure(req *http.Request) (*http.Response, []byte, error) {
	for again := 0; ; again++ {
		resp, body, err := b.send(req)
		if err != nil || !b.judged || req.Method != http.MethodGet || again == Doubtful {
			return resp, body, err
		}
		if j, _ := b.rules.Judge(b.reply(resp, body)); j.Verdict != Out {
			return resp, body, nil
		}
	}
}

// A page that shows a logged-out session is asked for again so often before that
// is believed: Doubtful where the site is known to err, or nothing is known.
const (
	Confirmations = 2
	Doubtful      = 5
)

// reply is what the rules look at.
func (b *run) reply(resp *http.Response, body []byte) Reply {
	reply := b.rules.Read(resp, resp.Request.URL, setting(resp.Request.URL), time.Now())
	reply.Page = Unpack(resp.Header.Get("Content-Encoding"), body)
	return reply
}

// judge asks the rules: of the login's own reply whether it is in, of those
// that come after it whether they are out.
func (b *run) judge(resp *http.Response, body []byte, login bool) error {
	reply := b.reply(resp, body)
	j, _ := b.rules.Judge(reply)
	b.in, b.out = b.in || j.Verdict == In, j.Verdict == Out
	switch {
	case login && !b.judged:
		b.judged = true
		switch j, _ := b.rules.JudgeLogin(reply); {
		case j.Verdict == Out && j.Rule != "":
			return fmt.Errorf("the site did not take the login, as %s shows (%d)", j.Rule, resp.StatusCode)
		case j.Verdict != In:
			return answered("the site answered the login with", resp)
		}
	case b.judged:
		if b.out {
			return fmt.Errorf("after the login the session is logged out, as %s shows", j.Rule)
		}
	case resp.StatusCode >= 400:
		return answered("the site answered", resp)
	}
	return nil
}

// answered is the error of a status. Those of a site that is broken or busy are
// no refusal.
func answered(what string, resp *http.Response) error {
	err := fmt.Errorf("%s %d %s", what, resp.StatusCode, http.StatusText(resp.StatusCode))
	if judgesNothing(resp.StatusCode) {
		return HinderedError{err, retryAfter(resp, time.Now())}
	}
	return err
}

// retryAfter is how long a site that is busy wants to be left alone (RFC 9110
// section 10.2.3). One that counts requests and does not say gets half a minute.
func retryAfter(resp *http.Response, now time.Time) time.Duration {
	field := resp.Header.Get("Retry-After")
	after := time.Duration(0)
	if at, err := http.ParseTime(field); err == nil {
		after = at.Sub(now)
	} else if seconds, err := strconv.ParseUint(field, 10, 31); err == nil {
		after = time.Duration(seconds) * time.Second
	} else if resp.StatusCode == http.StatusTooManyRequests {
		after = 30 * time.Second
	}
	return min(max(after, 0), maxRetryAfter)
}

const maxRetryAfter = time.Hour

// request makes a step's first request.
func (b *run) request(s *step) (*http.Request, error) {
	method, to := s.URL()
	if m := config.Placeholder.FindString(to); m != to { // a taken URL stands as it is
		to = b.fill(to, func(v string) string { return strings.ReplaceAll(url.QueryEscape(v), "+", "%20") })
	} else {
		to = b.fill(to, nil)
	}
	u, err := b.rules.Recipe.base.Parse(to)
	if err != nil {
		return nil, errors.New("what stands for its URL is none")
	}
	var body []byte
	contentType := ""
	switch {
	case len(s.Form) > 0:
		form := url.Values{}
		for name, value := range s.Form {
			form.Set(b.fill(name, nil), b.fill(value, nil))
		}
		body, contentType = []byte(form.Encode()), "application/x-www-form-urlencoded"
	case s.JSON.Value != nil:
		body, err = json.Marshal(b.fillJSON(s.JSON.Value))
		if err != nil {
			return nil, err
		}
		contentType = "application/json"
	}
	req, err := b.newRequest(method, u, body, contentType)
	if err != nil {
		return nil, err
	}
	for name, value := range s.Headers {
		req.Header.Set(name, b.fill(value, nil))
	}
	return req, nil
}

func (b *run) newRequest(method string, u *url.URL, body []byte, contentType string) (*http.Request, error) {
	if !b.way.Declared(u) {
		return nil, fmt.Errorf("%s is no host of the site", u.Host)
	}
	u.Fragment = ""
	req, err := http.NewRequestWithContext(b.ctx, method, u.String(), bytes.NewReader(body)) //nolint:gosec // of the site: see above
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "sessionproxy")
	req.Header.Set("Accept", "text/html,application/xhtml+xml,application/json;q=0.9,*/*;q=0.8")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	// Django and others take a form only with one of these.
	switch {
	case b.page == nil:
	case b.page.Scheme == u.Scheme && b.page.Host == u.Host:
		req.Header.Set("Referer", b.page.String())
	default: // as browsers do: strict-origin-when-cross-origin
		req.Header.Set("Referer", b.page.Scheme+"://"+b.page.Host+"/")
	}
	if method != http.MethodGet {
		from := u
		if b.page != nil {
			from = b.page
		}
		req.Header.Set("Origin", from.Scheme+"://"+from.Host)
	}
	for name, values := range b.way.Header {
		req.Header[name] = values
	}
	return req, nil
}

// send makes one round trip, with the cookies of the run.
func (b *run) send(req *http.Request) (*http.Response, []byte, error) {
	at := setting(req.URL)
	m := session.Merge(req.Header["Cookie"], session.Request{Host: at.Host, Path: at.Path, Secure: at.Secure, Now: b.way.Now()}, b.jar, nil, oneBrowser)
	if m.Header != "" {
		req.Header.Set("Cookie", m.Header)
	}
	resp, err := b.way.Send(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil { // which may name an upstream
		return nil, nil, errors.New("the reply broke off")
	}
	now := b.way.Now()
	u := session.Update{Base: session.Latest, Insecure: !at.Secure, Now: now}
	for _, line := range resp.Header["Set-Cookie"] {
		if c, err := session.ParseSetCookie(line, at, now); err == nil {
			u.Cookies = append(u.Cookies, c)
		}
	}
	b.jar, _ = b.jar.Apply(u, now.UnixMicro())
	return resp, body, nil
}

var oneBrowser = session.OneBrowser()

func setting(u *url.URL) session.Setting {
	host, _ := session.CanonicalHost(u.Hostname())
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	return session.Setting{Host: host, Path: path, Secure: u.Scheme == "https"}
}

// follow is the request that a reply leads to, nil where it leads nowhere.
func (b *run) follow(req *http.Request, resp *http.Response) (*http.Request, error) {
	location := resp.Header.Get("Location")
	if location == "" || !slices.Contains([]int{301, 302, 303, 307, 308}, resp.StatusCode) {
		return nil, nil
	}
	u, err := req.URL.Parse(location)
	if err != nil {
		return nil, errors.New("it redirects to what is no URL")
	}
	if resp.StatusCode >= 307 && req.Method != http.MethodGet { // RFC 9110 section 15.4.8
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		return b.newRequest(req.Method, u, text, req.Header.Get("Content-Type"))
	}
	next, err := b.newRequest(http.MethodGet, u, nil, "")
	if err != nil {
		return nil, fmt.Errorf("it redirects: %w", err)
	}
	return next, nil
}

// take takes all that a step should, and returns their names.
func (b *run) take(s *step, resp *http.Response, body []byte) (names []string, err error) {
	at := setting(resp.Request.URL)
	page := body
	if e := resp.Header.Get("Content-Encoding"); !unpack.Identity(e) {
		page = Unpack(e, body)
	}
	for _, t := range s.takes {
		value, err := t.of(resp, page, func(name string) (string, bool) { return cookieOf(b.jar, name, at, b.way.Now()) })
		if err != nil {
			return names, err
		}
		b.values[t.name] = value
		names = append(names, t.name)
	}
	slices.Sort(names)
	return names, nil
}

// cookieOf is the value of a cookie that goes to at.
func cookieOf(jar *session.Jar, name string, at session.Setting, now time.Time) (string, bool) {
	for _, v := range jar.Explain(session.Request{Host: at.Host, Path: at.Path, Secure: at.Secure, Now: now}, oneBrowser) {
		if v.Sent && v.Cookie.Name == name {
			return v.Cookie.Value, true
		}
	}
	return "", false
}

// fill puts values in the place of their placeholders.
func (b *run) fill(text string, escape func(string) string) string {
	return config.Placeholder.ReplaceAllStringFunc(text, func(m string) string {
		name := m[1 : len(m)-1]
		value, ok := b.values[name]
		switch {
		case name == "totp":
			value = totp(b.secret, time.Now())
		case !ok:
			return m
		}
		if escape != nil {
			value = escape(value)
		}
		return value
	})
}

func (b *run) fillJSON(v any) any {
	switch v := v.(type) {
	case string:
		return b.fill(v, nil)
	case []any:
		filled := make([]any, len(v))
		for i := range v {
			filled[i] = b.fillJSON(v[i])
		}
		return filled
	case map[string]any:
		filled := make(map[string]any, len(v))
		for name, value := range v {
			filled[name] = b.fillJSON(value)
		}
		return filled
	}
	return v
}

// plainURL is a URL without its query, where codes and tokens stand.
func plainURL(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }

// plainError is an error without the URL that net/http puts before it.
func plainError(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
