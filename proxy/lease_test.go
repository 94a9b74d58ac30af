package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// leaving has all traffic leave by a pool of the upstreams.
func leaving(change func(*config.Pool), upstreams ...*world.Upstream) func(*config.Config) {
	return func(c *config.Config) {
		p := world.Pool(upstreams...)
		if change != nil {
			change(&p)
		}
		c.Upstream = "eu"
		c.Upstreams = map[string]config.Pool{"eu": p}
		for i := range c.Sites {
			c.Sites[i].Upstream = "eu"
		}
	}
}

// path answers with the path that was asked for.
var path = handler(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(r.Host + r.RequestURI)) })

func TestEveryWayLeavesByTheUpstream(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https", "socks5"} {
		for _, user := range []string{"", "customer:zone%eu\xff"} {
			name := scheme
			if user != "" {
				name += " with credentials"
			}
			if scheme != "socks5" {
				user = strings.ReplaceAll(user, ":", "-") // RFC 7617
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				u := world.NewUpstream(t, world.UpstreamOptions{Scheme: scheme, User: user, Password: "p@:%/\x01ü"})
				w := world.New(t, world.Options{Handler: path, Config: leaving(nil, u)})
				before := 0
				onEach(t, world.Ways, func(t *testing.T, via world.Way) {
					a := w.Get(t, via, "/a%2Fb?c")
					if a.StatusCode != 200 || !strings.HasSuffix(a.Text, "/a%2Fb?c") {
						t.Errorf("answered %d %q", a.StatusCode, a.Text)
					}
					if n := len(u.Asked()); n == before {
						t.Error("the upstream was not asked")
					} else {
						before = n
					}
				})
				if n := w.Count("exchange", "upstream", scheme+"://"+u.Addr); n != len(world.Ways) {
					t.Errorf("%d records name the upstream, want %d", n, len(world.Ways))
				}
				if user != "" && w.Count("exchange", "upstream", u.URL) > 0 {
					t.Error("a record has the credentials")
				}
			})
		}
	}
}

func TestWhatNobodyCanLeaseIsRefused(t *testing.T) {
	t.Parallel()
	short := func(p *config.Pool) { p.Wait = 50 * time.Millisecond }
	_ = upstream.Full
	w := world.New(t, world.Options{Handler: path, Config: leaving(short), Faulty: true})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		a := w.Get(t, via, "/")
		if a.StatusCode != 503 || !strings.Contains(a.Header.Get("Proxy-Status"), "lease_exhausted") {
			t.Errorf("answered %d %q %q", a.StatusCode, a.Header.Get("Proxy-Status"), a.Text)
		}
	})
	if w.Origin.Accepted() > 0 {
		t.Error("a request went directly")
	}
}
