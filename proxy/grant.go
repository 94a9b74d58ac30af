package proxy

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/session"
)

// byToken finds the client whose password a token stands for. What is wrong
// with a token reads as a wrong password does.
func (p *Proxy) byToken(ctx context.Context, r *rules, name, token string) (*client, *access.Grant, *refusal) {
	g, err := p.access.Client(ctx, token)
	cl := r.clients[name]
	if err == nil && g.Client == name && cl != nil {
		return cl, &g, nil
	}
	p.metrics.authFailures.WithLabelValues("token").Inc()
	return nil, nil, wrongCredentials(cl, name)
}

// holds says whether the token that the client came with, if any, is still good.
func (p *Proxy) holds(id *identity) bool {
	return id.grant == nil || p.access.Good(context.Background(), *id.grant)
}

func tokenEnded() *refusal {
	return deny(http.StatusForbidden, "http_request_denied", "token_ended",
		"The token that this tunnel was opened with has ended, or was revoked: open another with a new one.")
}

// owner is whose end closes the identity's connections of a session.
func (id *identity) owner(of session.Key) owner {
	o := owner{session: of}
	if id.grant != nil {
		o.token, o.until = id.grant.ID, id.grant.Expires
	}
	return o
}

// grants says whether the identity's token, if any, lets it use the session on
// the site: it never gives more than the client has.
func (id *identity) grants(s *site) bool {
	g := id.grant
	return g == nil ||
		(len(g.Sites) == 0 || slices.Contains(g.Sites, s.Name)) &&
			(len(g.Sessions) == 0 || id.session == session.NoneID || session.AnyGlob(g.Sessions, id.session))
}

// endTokens closes the connections of tokens whose time is over, until the proxy
// closes. Those that are revoked close at once: see New.
func (p *Proxy) endTokens() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-p.conns.done():
			return
		case now := <-tick.C:
			p.conns.closeOf(func(o owner) bool { return o.token != "" && now.After(o.until) })
		}
	}
}
