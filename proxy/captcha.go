package proxy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/form"
	"github.com/sessionproxy/sessionproxy/proxy/audit"
	"github.com/sessionproxy/sessionproxy/proxy/trace"
	"github.com/sessionproxy/sessionproxy/session"
)

// How long a form waits for its token, where the rule does not say. Drivers of
// browsers give up at 30 s, and they send Fetch metadata.
const (
	browserWait = 25 * time.Second
	clientWait  = 90 * time.Second
)

// fill is one field that gets a token.
type fill struct {
	want
	found  form.Found
	token  captcha.Token
	source captcha.Source
	took   time.Duration
	got    bool // there is a token, and it was not sent
}

// fillForm gives the fields of a form that need one a token. It returns an
// answer of our own, or nil.
func (x *exchange) fillForm(r *http.Request) *http.Response {
	if x.site == nil || len(x.site.forms) == 0 || x.whose != session.Own || signed(r.Header) {
		return nil // a page of another site starts no solve
	}
	ref := x.holdForm(r)
	if ref == nil && x.form != nil && len(x.form.fills) > 0 {
		ref = x.place(r)
	}
	if ref != nil {
		return x.refuse(r, ref)
	}
	return nil
}

// signed says whether a body may not change, since another field, of the head or
// the trailer, vouches for it.
func signed(h http.Header) bool {
	for _, name := range vouching {
		if len(h[name]) > 0 {
			return true
		}
	}
	return false
}

var vouching = []string{
	"Content-Digest", "Repr-Digest", "Digest", "Content-Md5", "Signature",
	"X-Signature", "X-Hub-Signature", "X-Hub-Signature-256", "X-Amz-Content-Sha256",
}

// place puts tokens into the form that is about to be sent: those it has, as
// long as they are good, else new ones. Once any byte of the form was on its
// way, its tokens are spent.
func (x *exchange) place(r *http.Request) *refusal {
	if x.form == nil || len(x.form.fills) == 0 || x.form.fresh() {
		return nil
	}
	if err := x.getTokens(r); err != nil {
		return x.unfilled(r, err)
	}
	if err := x.form.write(r); err != nil {
		return x.unfilled(r, err)
	}
	return nil
}

// getTokens gets each field its token, all at once.
func (x *exchange) getTokens(r *http.Request) error {
	defer lap(&x.spent.Captcha, time.Now())
	var needy []*fill
	for _, f := range x.form.fills {
		if !f.got || !time.Now().Before(f.token.Expires) {
			needy = append(needy, f)
		}
	}
	errs := make([]error, len(needy))
	var wg sync.WaitGroup
	for i, f := range needy {
		wg.Go(func() { errs[i] = x.getToken(r, f) })
	}
	wg.Wait()
	for i, f := range needy {
		x.filled(r, f, errs[i])
	}
	return errors.Join(errs...)
}

func (x *exchange) getToken(r *http.Request, f *fill) (err error) {
	start := time.Now()
	f.got = false
	if err = f.err; err == nil {
		ask := f.ask
		if ask.MaxWait == 0 {
			ask.MaxWait = clientWait
			if len(r.Header["Sec-Fetch-Site"]) > 0 {
				ask.MaxWait = browserWait
			}
		}
		f.token, f.source, err = x.p.tokens.Get(x, ask)
		f.got = err == nil
	}
	f.took = time.Since(start)
	return err
}

// unfilled is what becomes of a form that got no token.
func (x *exchange) unfilled(r *http.Request, err error) *refusal {
	if x.Err() != nil {
		return x.failure(x.Err())
	}
	if !slices.ContainsFunc(x.form.fills, (*fill).rejects) {
		x.giveBack()
		x.form.fills = nil
		x.form.pass(r)
		return nil
	}
	ref := refuse(http.StatusServiceUnavailable, "http_request_denied", "captcha_failed", whyUnfilled(err))
	ref.cause = err
	if budget, ok := errors.AsType[*captcha.BudgetError](err); ok {
		ref.header = http.Header{"Retry-After": {strconv.Itoa(int(math.Ceil(budget.Again.Seconds())))}}
	}
	return ref
}

// whyUnfilled tells the client; the log has the cause.
func whyUnfilled(err error) string {
	const needs = "This form needs a captcha token, and the proxy has none: "
	_, budget := errors.AsType[*captcha.BudgetError](err)
	switch {
	case budget:
		return needs + "the solves that the site may have in an hour are used up. Try again later."
	case errors.Is(err, captcha.ErrMaxWait):
		return needs + "it was not solved in time. Try again, since it will soon be ready."
	case errors.Is(err, captcha.ErrNoSolver):
		return needs + "nobody is configured to solve it."
	case errors.Is(err, errNotSeen):
		return needs + "it has not seen the page that shows the captcha. Open that page first."
	case errors.Is(err, captcha.ErrClosed):
		return needs + "it is stopping."
	}
	return needs + "it could not be solved. The proxy's log says why."
}

// giveBack returns tokens that were got and not sent: nobody has seen them.
func (x *exchange) giveBack() {
	if !x.form.withdraw() {
		return
	}
	for _, f := range x.form.fills {
		if f.got && f.source != captcha.Static && f.source != captcha.TestKey && time.Now().Before(f.token.Expires) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(x), storeLimit)
			x.p.tokens.Return(ctx, f.ask.Key(), f.token)
			cancel()
		}
		f.got = false
	}
}

// releaseForm ends the use of what was held for the form.
func (x *exchange) releaseForm() {
	if x.form == nil {
		return
	}
	x.giveBack()
	if err := x.form.close(); err != nil {
		x.p.log.Warn("spool: a body is left behind", "err", err)
	}
}

// describeFills is what the exchange's record has of a form's fields.
func (x *exchange) describeFills() string {
	var all []string
	for _, f := range x.form.fills {
		how := string(f.source)
		if how == "" {
			how = "none"
		}
		all = append(all, fmt.Sprintf("%s %s", f.ask.Type, how))
	}
	return strings.Join(all, ", ")
}

// filled tells of a field that needed a token, in the audit log and the
// metrics: each solve is paid for.
func (x *exchange) filled(r *http.Request, f *fill, err error) {
	outcome := "filled"
	if err != nil {
		outcome = captcha.OutcomeOf(err)
		if x.Err() != nil {
			outcome = "client_gone"
		}
	}
	x.site.counts.fill(string(f.ask.Type), string(f.source), outcome)
	x.captchas = append(x.captchas, trace.Fill{
		Type: string(f.ask.Type), Source: string(f.source), Outcome: outcome, Milliseconds: float64(f.took.Microseconds()) / 1000,
	})
	e := audit.Event{
		Action: audit.CaptchaFill, Outcome: audit.Done, Exchange: x.exchangeID(),
		By: x.id.name, From: x.id.from.String(), Worker: x.id.worker, Site: x.site.Name, Session: x.id.session, Host: x.target.host,
		Target:  f.ask.Key().String(),
		Captcha: &audit.Captcha{Type: string(f.ask.Type), For: string(captcha.ForForm), Source: string(f.source), Seconds: f.took.Seconds()},
	}
	if u, perr := url.Parse(f.ask.Page); perr == nil {
		e.Captcha.Page = u.Path
	}
	if err != nil {
		e.Outcome, e.Reason = audit.Failed, outcome
		x.p.log.Warn("a form got no captcha token", "id", x.exchangeID(), "site", x.site.Name, "path", cookiePath(r), "key", f.ask.Key().String(), "reason", outcome, "err", err)
	}
	x.p.audit.Write(e)
}
