package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha/form"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session"
)

// recipeStep is the exchange that a recipe's request is, for what looks at
// pages and fills forms: as a client's of the session, from this machine.
func (p *Proxy) recipeStep(r *http.Request, run *recipeRun, t target) *exchange {
	rules := p.rules.Load()
	return &exchange{
		Context: r.Context(), p: p, rules: rules, site: rules.site(t.host, t.port), target: t, mode: modePlain,
		id:  &identity{name: "recipe", from: netip.AddrFrom4([4]byte{127, 0, 0, 1}), session: run.key.ID},
		key: run.key, whose: session.Own, method: r.Method, start: time.Now(),
	}
}

// fillStep gives the form of a recipe's step its captcha tokens. A recipe's form
// has what the operator wrote: a field that is not there is an empty one.
func (x *exchange) fillStep(r *http.Request) error {
	kind, ok := form.TypeOf(first(r.Header, "Content-Type"))
	if !ok || r.GetBody == nil || len(x.site.forms) == 0 {
		return nil
	}
	wants := x.wants(r)
	for i := range wants {
		if rule := *wants[i].rule; rule.When == config.WhenEmpty {
			rule.When = config.WhenMissing
			wants[i].rule = &rule
		}
	}
	b, err := r.GetBody()
	if err != nil {
		return err
	}
	body, err := io.ReadAll(b)
	if err != nil {
		return err
	}
	h := &heldForm{}
	if h.find(kind, wants, bytes.NewReader(body), int64(len(body))); len(h.fills) == 0 {
		return nil
	}
	x.form = h
	if err := x.getTokens(r); err != nil {
		x.giveBack()
		for _, f := range h.fills {
			if f.rule.OnFailure != config.Forward {
				return errors.New(whyUnfilled(err))
			}
		}
		return nil
	}
	edits := make([][]form.Edit, len(h.fills))
	for i, f := range h.fills {
		if edits[i], err = f.found.Fill(f.token.Value); err != nil {
			return err
		}
	}
	all, _ := form.Merge(edits...) // find has seen that it can be done
	patched, size := form.Patch(bytes.NewReader(body), int64(len(body)), all)
	r.Body, r.ContentLength = io.NopCloser(patched), size
	return nil
}
