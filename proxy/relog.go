package proxy

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/trace"
)

// mayRetry says whether the request can be sent again with other cookies, and
// whether there are any, or a recipe that may get some.
func (x *exchange) mayRetry(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || x.upload != nil {
		return false
	}
	return x.renewed < maxRenewed && x.late() || x.site.hasAccount(x.key.ID)
}

// maxRenewed is how often a request is sent again since the session had moved
// on. Once is enough where somebody has logged in. A site that gives it a new
// value with each reply may take that of a slow request for an old one more
// often.
const maxRenewed = 8

// retries says whether the request is to be sent again: its reply shows that
// the session is logged out, and another state of it is there, or comes of a
// login of our own. The client sees no byte of this reply then, nor of one in
// whose place it gets a refusal, since a login can't be had in time.
func (x *exchange) retries(r *http.Request, resp *http.Response, j login.Judgment) (bool, *refusal) {
	if x.jar == unknownJar {
		return j.Verdict == login.Out && x.mayRetry(r) && x.turnsUp(), nil
	}
	at := r.URL.Host + r.URL.RequestURI()
	if j.Verdict != login.Out {
		x.notOut(resp, j, at)
		return false, nil
	}
	retry := x.mayRetry(r)
	if x.late() {
		// Nor does it end the session, however often: a request of which all
		// replies are late is one of a session that lives.
		x.renewed++
		return retry && x.renewed <= maxRenewed, nil
	}
	underWay := x.p.recipes.underWay(x.key, x.jar.Renewed())
	switch {
	case !x.site.hasAccount(x.key.ID):
		x.note(j)
		return false, nil
	case x.p.doubts.Closed(x.key, at) && !underWay:
		return false, nil
	case retry && !underWay && !x.knownOut():
		switch again, still := x.confirm(); {
		case again:
			x.facts |= trace.Confirmed
			return true, nil
		case !still:
			return false, nil
		}
	}
	x.note(j)
	switch {
	case retry:
		return x.relog(at)
	case x.p.recipes.rest(x.key) == nil:
		x.p.recipes.start(x.p, x.site, x.key, x.jar.Version(), false)
	}
	return false, nil
}

// turnsUp waits for a session that the store did not tell of, and says whether
// it does now: the request left without it.
func (x *exchange) turnsUp() bool {
	if x.p.held.Add(1) > maxHeld {
		x.p.held.Add(-1)
		return false
	}
	defer x.p.held.Add(-1)
	defer lap(&x.spent.Login, time.Now())
	x.renewed++
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for end := time.Now().Add(newsLimit); x.load(x.key) == unknownJar; {
		select {
		case now := <-look.C:
			if now.After(end) {
				return false
			}
		case <-x.Done():
			return false
		}
	}
	return true
}

// notOut is what follows from a reply that shows no logged-out session.
func (x *exchange) notOut(resp *http.Response, j login.Judgment, at string) {
	if resp.StatusCode < http.StatusBadRequest {
		x.p.doubts.Open(x.key, at)
		if x.confirmed > 0 && x.jar.Renewed() == x.confirms {
			x.p.doubts.Erred(x.key)
			j = login.Judgment{Verdict: login.In, Rule: "a second reply"}
		}
	}
	if j.Verdict == login.In {
		x.note(j)
	}
}

// knownOut says whether the session was confirmed to be logged out, at a site
// that does not err.
func (x *exchange) knownOut() bool {
	return x.p.verdicts.Show(x.key, x.jar).Verdict == login.Out && !x.p.doubts.HasErred(x.key)
}

// confirm says whether the request is to be sent again before its reply is
// believed: a login costs more than asking twice. Some sites lose a session for
// one request; and one that honours the newest value of a session only takes a
// request for logged out while the reply with that value is on its way. An ended
// session stands still.
func (x *exchange) confirm() (again, still bool) {
	if state := x.jar.Renewed(); x.confirmed == 0 || state != x.confirms {
		if x.confirmed > 0 {
			x.renewed++
		}
		x.confirmed, x.confirms = 0, state
	}
	most := login.Confirmations
	if x.p.doubts.HasErred(x.key) {
		most = login.Doubtful
	}
	if x.confirmed >= most || x.renewed > maxRenewed {
		return false, x.renewed <= maxRenewed
	}
	if x.confirmed++; x.confirmed == most {
		defer lap(&x.spent.Login, time.Now())
		late := time.NewTimer(stillness)
		defer late.Stop()
		select {
		case <-late.C:
		case <-x.Done():
		}
	}
	return true, true
}

// stillness is how long a session is given to move on, before a request is sent
// for the last time.
const stillness = 250 * time.Millisecond

// relog waits for a login of the proxy's own, and says whether the request is
// to be sent again then.
func (x *exchange) relog(at string) (bool, *refusal) {
	defer lap(&x.spent.Login, time.Now())
	if x.p.held.Add(1) > maxHeld {
		x.p.held.Add(-1)
		return false, tooMany()
	}
	defer x.p.held.Add(-1)
	for {
		rest := x.p.recipes.rest(x.key)
		switch {
		case rest != nil && rest.Cause == login.Refused:
			return false, nil // somebody may log in by hand, and sees what the site says
		case rest != nil:
			if !x.sits(rest.Until) {
				return false, x.noLogin(rest.Why, rest, time.Until(rest.Until))
			}
			if x.late() {
				return true, nil
			}
		case x.relogs >= maxRelogs && !x.p.recipes.underWay(x.key, x.jar.Renewed()):
			x.p.doubts.Close(x.key, at)
			return false, nil
		default:
			if done, retry, ref := x.await(x.p.recipes.start(x.p, x.site, x.key, x.jar.Version(), false)); done {
				return retry, ref
			}
		}
		if x.Err() != nil {
			return false, x.failure(x.Err())
		}
	}
}

// maxRelogs is for how many logins a request begins one. After the first the
// session may have ended at once. A page that is logged out after the second is
// one that this account may not see.
const maxRelogs = 2

// await waits for a recipe's run. Unless that was left to its rest, which is for
// the caller, what became of it is done with.
func (x *exchange) await(run *recipeRun) (done, retry bool, ref *refusal) {
	late := time.NewTimer(time.Until(x.patient()))
	defer late.Stop()
	select {
	case <-run.done:
	case <-x.Done():
		return false, false, nil
	case <-late.C:
		return true, false, x.noLogin("that takes longer than the site's wait", nil, time.Second)
	}
	_, rests := errors.AsType[*login.RestError](run.err)
	switch {
	case rests:
		return false, false, nil
	case run.err != nil:
		return true, false, x.noLogin("it was broken off", run.err, time.Second)
	case run.moved:
		x.renewed++
	default:
		x.relogs++
		x.facts |= trace.Relogged
	}
	x.confirmed = 0
	return true, x.renewed <= maxRenewed, nil
}

// sits waits until then, or until the session has moved on. It returns false at
// once where that is longer than the request waits in all.
func (x *exchange) sits(until time.Time) bool {
	if until.After(x.patient()) {
		return false
	}
	end := time.NewTimer(time.Until(until))
	defer end.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for !x.late() {
		select {
		case <-end.C:
			return true
		case <-look.C:
		case <-x.Done():
			return true
		}
	}
	return true
}

// lookEvery is how soon a request that waits for the end of a recipe's rest sees
// that somebody else has logged in.
const lookEvery = 500 * time.Millisecond

// patient is when the request has waited for logins as long as it may.
func (x *exchange) patient() time.Time {
	if x.loginEnd.IsZero() {
		x.loginEnd = time.Now().Add(x.site.login.Wait)
	}
	return x.loginEnd
}

// noLogin is what a client is told in the place of a login page.
func (x *exchange) noLogin(why string, cause error, again time.Duration) *refusal {
	x.site.counts.login("waited")
	seconds := strconv.Itoa(max(1, int(math.Ceil(again.Seconds()))))
	ref := refuse(http.StatusServiceUnavailable, "http_request_denied", "login_rests",
		fmt.Sprintf("The session is logged out, and the proxy's own login is not to be had: %s. Try again in %s s.", strings.TrimSuffix(why, "."), seconds))
	ref.cause, ref.header = cause, http.Header{"Retry-After": {seconds}}
	return ref
}
