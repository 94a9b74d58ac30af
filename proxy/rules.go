package proxy

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/password"
	"github.com/sessionproxy/sessionproxy/proxy/egress"
	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/session"
)

// rules are a configuration made ready for the road. They never change; a
// reload makes new ones, and an exchange keeps those it began with.
type rules struct {
	undeclared config.Undeclared
	egress     *egress.Guard
	reports    bool // what egress refuses is reported, and passes
	guarded    config.Egress
	clients    map[string]*client // nil: any name is a client
	secrets    []password.Secret  // of the clients
	sites      []*site
	exact      map[hostPort]*site
	wildcard   map[hostPort]*site // host without "*."
	direct     *origin            // of hosts that no site declares
	pool       *upstream.Pool     // that they leave by; nil: directly
	upstreams  map[string]bool    // addresses of those that the configuration names
}

// hostPort is a pattern's host, and its port or "".
type hostPort struct{ host, port string }

// site is one declared site.
type site struct {
	config.Site
	policy *session.Policy
	life   session.Life
	origin *origin
	login  *login.Rules   // nil: none is declared
	forms  []formRule     // by which forms get captcha tokens
	pool   *upstream.Pool // nil: directly
	counts *siteCounts
}

// client is one declared principal.
type client struct {
	config.Client
	secret password.Secret
	sites  map[string]bool // by name; nil: all
}

// compile makes rules of c. Parts that did not change are taken from old, so
// that a reload keeps warm connections.
func compile(c *config.Config, old *rules, m *metrics) (*rules, error) {
	r := &rules{
		undeclared: c.Undeclared,
		egress:     egress.New(c.Egress),
		reports:    c.Egress.Mode == config.EgressReport,
		guarded:    c.Egress,
		exact:      map[hostPort]*site{},
		wildcard:   map[hostPort]*site{},
		direct:     &origin{},
		upstreams:  map[string]bool{},
	}
	for _, pool := range c.Upstreams {
		for _, proxy := range pool.Proxies {
			r.upstreams[proxy.Upstream.Addr()] = true
		}
	}
	if old != nil && !reflect.DeepEqual(old.guarded, c.Egress) {
		old = nil // its connections may lead where nobody goes now
	}
	if old != nil {
		r.direct = old.direct
	}
	for _, cs := range c.Sites {
		s := &site{
			Site:   cs,
			policy: session.NewPolicy(cs.Cookies.Share, cs.Cookies.Private, cs.Cookies.Precedence == config.ClientWins),
			life:   session.Life{Idle: cs.Cookies.TTL, Max: cs.Cookies.MaxAge},
			counts: m.site(cs.Name),
			forms:  formRules(cs),
		}
		if cs.Login != nil {
			s.login = login.New(cs.Login, cs.Key)
		}
		var err error
		if s.origin, err = openOrigin(cs.Origin, old.originLike(cs.Name)); err != nil {
			return nil, fmt.Errorf("site %s: %w", cs.Name, err)
		}
		for _, p := range cs.Patterns {
			table := r.exact
			if p.Wildcard {
				table = r.wildcard
			}
			table[hostPort{p.Host, p.Port}] = s
		}
		r.sites = append(r.sites, s)
	}
	if len(c.Clients) > 0 {
		r.clients = make(map[string]*client, len(c.Clients))
	}
	for _, cc := range c.Clients {
		secret, err := password.Parse(cc.Password)
		if err != nil {
			return nil, fmt.Errorf("client %s: %w", cc.Name, err)
		}
		cl := &client{Client: cc, secret: secret}
		r.secrets = append(r.secrets, secret)
		if len(cc.Sites) > 0 {
			cl.sites = make(map[string]bool, len(cc.Sites))
			for _, name := range cc.Sites {
				cl.sites[name] = true
			}
		}
		r.clients[cc.Name] = cl
	}
	return r, nil
}

// lease has the rules' traffic leave by the pools that the configuration names.
func (r *rules) lease(c *config.Config, pools *upstream.Pools) {
	r.pool = pools.Pool(c.Upstream) // nil: there is none called direct
	for _, s := range r.sites {
		s.pool = pools.Pool(s.Upstream)
	}
}

// site returns the site that declares host, or nil. Exact patterns beat
// wildcards, longer wildcards shorter ones, and at the same host one with the
// port beats one without.
func (r *rules) site(host, port string) *site {
	host = strings.TrimSuffix(host, ".")
	if s := lookup(r.exact, host, port); s != nil {
		return s
	}
	for {
		dot := strings.IndexByte(host, '.')
		if dot < 0 {
			return nil
		}
		host = host[dot+1:]
		if s := lookup(r.wildcard, host, port); s != nil {
			return s
		}
	}
}

func lookup(table map[hostPort]*site, host, port string) *site {
	if s := table[hostPort{host, port}]; s != nil {
		return s
	}
	return table[hostPort{host: host}]
}

// ofKey returns the site of that key, or nil.
func (r *rules) ofKey(key string) *site {
	for _, s := range r.sites {
		if s.Key == key {
			return s
		}
	}
	return nil
}

// origin returns how a site is reached; nil is a host that no site declares.
func (r *rules) origin(s *site) *origin {
	if s == nil {
		return r.direct
	}
	return s.origin
}

// originLike returns what the old rules hold for the site of that name.
func (r *rules) originLike(name string) *origin {
	if r == nil {
		return nil
	}
	for _, s := range r.sites {
		if s.Name == name {
			return s.origin
		}
	}
	return nil
}

// origins returns all origins in use.
func (r *rules) origins() map[*origin]bool {
	set := map[*origin]bool{r.direct: true}
	for _, s := range r.sites {
		set[s.origin] = true
	}
	return set
}
