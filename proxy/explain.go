package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session"
)

// Locate returns the name of the site that declares u, "" for none, and what
// decides on the cookies that a reply from u sets. Its error is a sentence.
func (p *Proxy) Locate(u *url.URL) (site string, at session.Setting, err error) {
	t, ref := plainTarget(u)
	if ref != nil {
		return "", at, errors.New(ref.public)
	}
	if s := p.rules.Load().site(t.host, t.port); s != nil {
		site = s.Name
	}
	return site, session.Setting{Host: t.host, Path: cookiePath(&http.Request{URL: u}), Secure: t.secure}, nil
}

// Explain says what a request for u would carry of a session, were it made by
// the client itself and not by a page of another site. refused is a sentence
// where the request as a whole gets nothing; else there is a verdict for each
// cookie. A client of "" is one without rules of its own.
func (p *Proxy) Explain(ctx context.Context, u *url.URL, client, id string) (site, refused string, verdicts []session.Verdict, err error) {
	t, ref := plainTarget(u)
	if ref != nil {
		return "", ref.public, nil, nil
	}
	r := p.rules.Load()
	s := r.site(t.host, t.port)
	switch who := (&identity{client: r.clients[client], name: client, session: id}); {
	case s == nil && r.undeclared == config.Refuse:
		return "", undeclared(t.host).public, nil, nil
	case s == nil:
		return "", fmt.Sprintf("No site declares %s: its requests pass as they are.", t.authority()), nil, nil
	case client != "" && r.clients != nil && who.client == nil:
		return s.Name, fmt.Sprintf("The proxy has no client %s: it would ask for other credentials.", client), nil, nil
	default:
		ref = who.admit(s)
	}
	switch {
	case ref != nil:
		return s.Name, ref.public, nil, nil
	case id == session.NoneID:
		return s.Name, "The session none stands for no session at all.", nil, nil
	case s.Origin.HTTPSOnly && !t.secure:
		return s.Name, "The site is served over https only: the client is sent there.", nil, nil
	case !s.Cookies.Inject:
		return s.Name, "The site's requests get no cookies of its sessions: cookies.inject is false.", nil, nil
	}
	jar, err := p.store.Load(ctx, session.Key{Site: s.Key, ID: id})
	switch {
	case errors.Is(err, session.ErrNotFound):
		return s.Name, "", nil, nil
	case err != nil:
		return s.Name, "", nil, err
	}
	return s.Name, "", jar.Explain(session.Request{
		Host:   t.host,
		Path:   cookiePath(&http.Request{URL: u}),
		Secure: t.secure,
		Logout: s.endsLogin(u),
		Now:    p.store.Now(),
	}, s.policy), nil
}
