package proxy

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/session"
)

// knowsLogin says whether the exchange takes part in a session whose login is
// declared. A foreign page's request, and one that ends the login, do not.
func (x *exchange) knowsLogin() bool {
	return x.inUse() && x.site.login != nil && x.whose == session.Own && !x.logout
}

// enterLogin waits for another's login where the request is one, or would go
// out logged out during one. It returns an answer of our own, or nil.
func (x *exchange) enterLogin(r *http.Request) *http.Response {
	if !x.knowsLogin() {
		return nil
	}
	if x.logsIn = x.id.writes() && x.site.login.Matches(r.Method, x.target.host, cookiePath(r)); !x.logsIn {
		return x.hold(r)
	}
	body, whole, err := x.readLogin(r)
	if err != nil {
		return x.refuse(r, x.failure(err))
	}
	if !whole {
		return nil // it is no form
	}
	print := x.site.login.Fingerprint(r.Method, sentURL(r), first(r.Header, "Content-Type"), body)
	return x.takeTurn(r, login.Login{Key: x.key, Name: hex.EncodeToString(print[:])})
}

// readLogin reads the body of a login request, which is sent from memory then.
// It returns false where that is longer than a form's.
func (x *exchange) readLogin(r *http.Request) ([]byte, bool, error) {
	if x.upload == nil {
		return nil, true, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, login.MaxBody+1))
	if err != nil {
		return nil, false, err
	}
	if len(body) <= login.MaxBody {
		r.Body = &readBody{body, x.upload}
		return body, true, nil
	}
	r.Body = &readBody{body, x.upload}
	return nil, false, nil
}

// readBody is a request's body whose beginning has been read.
type readBody struct {
	begin []byte
	*upload
}

func (b *readBody) Read(p []byte) (int, error) {
	if len(b.begin) > 0 {
		n := copy(p, b.begin)
		b.begin = b.begin[n:]
		return n, nil
	}
	if b.done.Load() {
		return 0, io.EOF
	}
	return b.upload.Read(p)
}

// takeTurn waits for the right to log in, or for another's login of the same
// kind, whose answer it returns.
func (x *exchange) takeTurn(r *http.Request, l login.Login) *http.Response {
	defer lap(&x.spent.Login, time.Now())
	if x.p.held.Add(1) > maxHeld {
		x.p.held.Add(-1)
		return x.refuse(r, tooMany())
	}
	defer x.p.held.Add(-1)
	order := login.Order{Login: l, Wait: x.site.login.Wait, Fail: x.site.login.Fail, Guest: true}
	for {
		turn, answer, err := x.p.turns.Begin(x, order)
		if answer != nil { // its client's next request is to be logged in
			x.p.awaitNews(x, x.key, answer.Version)
		}
		switch {
		case err == nil && turn != nil:
			x.turn = turn
			return nil
		case err == nil && x.stands(answer):
			x.site.counts.login("shared")
			return x.share(r, answer)
		case err == nil:
			x.p.turns.Void(x, x.key, answer.Version)
		case errors.Is(err, login.ErrWait):
			x.site.counts.login("waited")
			return x.refuse(r, refuse(http.StatusServiceUnavailable, "http_request_denied", "login_wait",
				"Another client is logging in to this site, and that takes too long. Try again."))
		default:
			return x.refuse(r, x.failure(err))
		}
	}
}

// stands says whether the session still has the login that an answer tells of:
// it may have been revoked or cleared since.
func (x *exchange) stands(a *login.Answer) bool {
	jar := x.load(x.key)
	// An older jar is one that the news has not reached yet.
	return jar.Version() < a.Version || jar.Login() > 0 && jar.Floor() < a.Version
}

// share is another's answer, for this client.
func (x *exchange) share(r *http.Request, a *login.Answer) *http.Response {
	page := ""
	if u, err := url.Parse(first(r.Header, "Referer")); err == nil && u.Scheme == r.URL.Scheme && u.Host == r.URL.Host {
		page = u.String()
	}
	resp := a.Response(r, page)
	resp.Header["X-Exchange-Id"] = []string{x.exchangeID()}
	resp.Body, resp.ContentLength = http.NoBody, 0
	if len(a.Body) > 0 {
		resp.Body, resp.ContentLength = newBody(a.Body), int64(len(a.Body))
	}
	x.shared = true
	return resp
}

// loggedIn is what follows from the reply to a login request: whether it is the
// login that the session has from now on, and the end of the turn. It runs
// before the client sees a byte of it.
func (x *exchange) loggedIn(r *http.Request, resp *http.Response) {
	x.judged = x.judgeLogin(r, resp)
	x.site.counts.login(x.judged.String())
	if x.turn != nil && x.judged.Verdict == login.In {
		// Where its turn was over, it sets nothing. The client may be gone.
		x.overtaken = !x.turn.Last(context.WithoutCancel(x))
	}
	x.capture(resp)
	switch {
	case x.judged.Verdict == login.In && !x.overtaken:
		x.adopt(r)
		jar := x.load(x.key)
		x.p.note(x, x.key, x.judged, jar.Version(), jar.Login())
		if x.turn != nil {
			answer := login.NewAnswer(resp, x.wholeBody(resp))
			answer.Version = jar.Version()
			x.endTurn(login.Result{Answer: answer})
		}
	default:
		x.endTurn(login.Result{Why: fmt.Sprintf("the site answered %d", resp.StatusCode)})
	}
	x.p.log.Info("login", "id", x.exchangeID(), "site", x.site.Name, "session", x.key.ID, "client", x.id.name,
		"status", resp.StatusCode, "verdict", x.judged.String(), "rule", x.judged.Rule, "overtaken", x.overtaken)
}

// judgeLogin asks the rules about the reply to a login request, and waits for
// the page where that alone can tell.
func (x *exchange) judgeLogin(r *http.Request, resp *http.Response) login.Judgment {
	reply := x.reply(r, resp)
	j, known := x.site.login.JudgeLogin(reply)
	if !known {
		reply.Page = x.holdPage(resp)
		j, _ = x.site.login.JudgeLogin(reply)
	}
	return j
}

// wholeBody is the body of a login's reply, unpacked, for others to be given:
// nil where it is too long, or too long in coming.
func (x *exchange) wholeBody(resp *http.Response) []byte {
	if resp.Header.Get("Location") != "" {
		return nil
	}
	a := x.ahead(resp, func(n int) bool { return n > login.MaxAnswer })
	if !a.whole() {
		return nil
	}
	page := login.Unpack(first(resp.Header, "Content-Encoding"), a.bytes())
	if len(page) == 0 && len(a.bytes()) > 0 {
		return nil
	}
	return page
}

// endTurn gives the turn back, if there is one. Only the first time counts: a
// turn whose request got no reply ends with its exchange.
func (x *exchange) endTurn(result login.Result) {
	if x.turn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x), storeLimit)
	defer cancel()
	x.turn.End(ctx, result)
}

// hold keeps a request that would go out logged out until the login under way
// has ended. There is a bound to how many are held, and for how long.
func (x *exchange) hold(r *http.Request) *http.Response {
	done := x.p.turns.UnderWay(x.key)
	if done == nil || x.site.login.Page(sentURL(r)) {
		return nil
	}
	if x.p.verdicts.Show(x.key, x.load(x.key)).Verdict != login.Out {
		return nil
	}
	if x.p.held.Add(1) > maxHeld {
		x.p.held.Add(-1)
		return nil
	}
	defer x.p.held.Add(-1)
	defer lap(&x.spent.Login, time.Now())
	late := time.NewTimer(time.Until(x.patient()))
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	case <-x.Done():
		return x.refuse(r, x.failure(x.Err()))
	}
	return nil
}

// tooMany is what one is told who comes when maxHeld wait.
func tooMany() *refusal {
	ref := refuse(http.StatusServiceUnavailable, "http_request_denied", "login_wait", "Too many requests wait for a login. Try again in 1 s.")
	ref.header = http.Header{"Retry-After": {"1"}}
	return ref
}

// maxHeld bounds the requests of a proxy that wait for a login.
const maxHeld = 10_000
