package proxy_test

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/loginsites"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/proxy/trace"
)

// traced is the last exchange that fits, once it is of that outcome.
func traced(t *testing.T, p *world.Proxy, f trace.Filter) (e trace.Exchange) {
	t.Helper()
	world.Eventually(t, "the exchange is traced", func() bool {
		last := p.Trace().Last(t.Context(), f, 1)
		if len(last) == 1 {
			e = last[0]
		}
		return len(last) == 1
	})
	return e
}

func sentNames(e trace.Exchange) string {
	var names []string
	for _, c := range e.Cookies {
		if c.Sent {
			names = append(names, c.From+" "+c.Name)
		}
	}
	return strings.Join(names, ", ")
}

// Each way leaves the same trace.
func TestAnExchangeLeavesATrace(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Config: clients, Listen: asking, Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "csrftoken=1")
		io.WriteString(w, "hello")
	})})
	put(t, w, "qa1", "sid=1")
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		user := world.User{Name: "crawler-session-qa1-worker-" + via.Mode(), Password: crawler.Password}
		w.GetAs(t, via, user, "/cart?token=1", "Cookie", "sid=0; theme=dark")
		e := traced(t, w.Proxy, trace.Filter{Worker: via.Mode(), Outcome: trace.OK})
		if e.Client != "crawler" || e.Site != "shop" || e.Session != "qa1" || e.Selected != "credentials" || e.Version == 0 || e.Whose != "own" ||
			e.Mode != via.Mode() || e.Method != "GET" || e.Host != world.Host || e.Path != "/cart" || e.Status != 200 || e.Bytes != 5 {
			t.Errorf("%+v", e)
		}
		if got := sentNames(e); !strings.HasPrefix(got, "session sid") || !strings.HasSuffix(got, "client theme") {
			t.Errorf("sent are %q", got)
		}
		if e.Times.Total <= 0 || e.Times.Upstream <= 0 || e.Times.Added <= 0 || e.Times.Total < e.Times.Upstream+e.Times.Added {
			t.Errorf("times %+v", e.Times)
		}
		if len(e.SetCookies) != 1 || !e.SetCookies[0].Captured || !strings.Contains(e.SetCookies[0].Why, "this worker's own") {
			t.Errorf("set are %+v", e.SetCookies)
		}
	})
}

// What is refused at the door, and what opens and ends later, is told of as well.
func TestConnectionsLeaveATrace(t *testing.T) {
	t.Parallel()
	addr := world.Serve(t, irc)
	w := world.New(t, world.Options{Config: clients, Listen: asking, Script: socket(echo)})
	if a := w.GetAs(t, world.Plain, world.User{Name: "crawler", Password: "wrong"}, "/"); a.StatusCode != http.StatusProxyAuthRequired {
		t.Fatalf("answered %d", a.StatusCode)
	}
	if e := traced(t, w.Proxy, trace.Filter{Outcome: trace.Refused}); e.Refused == nil || e.Refused.Code != "credentials" || e.Path != "/" || e.Status != 407 {
		t.Errorf("%+v", e)
	}

	authorized := credentials("crawler-worker-blind", crawler.Password)
	c := w.Connect(t, addr, authorized)
	c.Send("NICK ana\r\n")
	c.Want("001 ana\r\n")
	open := traced(t, w.Proxy, trace.Filter{Worker: "blind"})
	c.CloseWrite()
	c.WantEnd()
	ended := traced(t, w.Proxy, trace.Filter{Worker: "blind", Outcome: trace.OK})
	_, port, _ := net.SplitHostPort(addr)
	if open.Outcome != trace.Open || ended.ID != open.ID || ended.SentBytes != 10 || ended.Bytes != 9 || ended.Port != port || ended.Site != "" || len(ended.Why) != 1 {
		t.Errorf("%+v\n%+v", open, ended)
	}

	c = w.Connect(t, world.Host+":443", credentials("crawler-worker-silent", crawler.Password))
	c.Close()
	if e := traced(t, w.Proxy, trace.Filter{Worker: "silent"}); e.Outcome != trace.ClientTLS || !slices.Contains(e.Why, "The client opened a tunnel and said nothing in it, as browsers do that connect ahead.") {
		t.Errorf("%+v", e)
	}
}

func TestAWebSocketIsTracedWhenItOpens(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Script: socket(echo)})
	c, _ := upgrade(t, w, world.TunnelH1, "websocket", "")
	open := traced(t, w.Proxy, trace.Filter{Site: "shop"})
	c.Send("hello")
	c.Want("hello")
	c.Close()
	ended := traced(t, w.Proxy, trace.Filter{Outcome: trace.OK})
	if open.Outcome != trace.Open || open.Status != 101 || ended.ID != open.ID || ended.Bytes != 5 {
		t.Errorf("%+v\n%+v", open, ended)
	}
}

func TestATraceSaysWhatTheProxyDidForALogin(t *testing.T) {
	t.Parallel()
	site := loginsites.New(loginsites.Options{})
	w := loginWorld(t, site, withRecipe(loginRules()))
	wantHello(t, w.Get(t, world.TunnelH1, "/account"))
	e := traced(t, w.Proxy, trace.Filter{Session: "default"})
	if !slices.Contains(e.Why, "The session was logged out: the proxy logged in by the site's recipe.") || e.Times.Login <= 0 || e.Status != 200 {
		t.Errorf("%+v", e)
	}
	if a := post(t, w.Proxy, world.TunnelH1, "wrong", formToken(t, w.Proxy, world.TunnelH1)); a.StatusCode == http.StatusSeeOther {
		t.Fatalf("answered %d", a.StatusCode)
	}
	var why []string
	for _, e := range w.Trace().Last(t.Context(), trace.Filter{}, 1) {
		why = e.Why
	}
	if len(why) == 0 || !strings.HasPrefix(why[0], "A login request") {
		t.Errorf("of a login it says %q", why)
	}
}

func TestATraceNamesTheExit(t *testing.T) {
	t.Parallel()
	a, b, before := two(t, world.UpstreamOptions{User: "u", Password: "secret"})
	w := world.New(t, world.Options{Handler: path, Config: leaving(nil, a, b), Faulty: true})
	w.Get(t, world.Plain, "/")
	used, other := inUse(t, before)
	used.Kill()
	w.Get(t, world.Plain, "/again")
	world.Eventually(t, "both are traced", func() bool { return len(w.Trace().Last(t.Context(), trace.Filter{}, 5)) == 2 })
	last := w.Trace().Last(t.Context(), trace.Filter{}, 5)
	for i, want := range []trace.Exit{{Pool: "eu", Upstream: "http://" + other.Addr, Moves: 1}, {Pool: "eu", Upstream: "http://" + used.Addr}} {
		if got := last[i].Lease; got == nil || *got != want {
			t.Errorf("%s left by %+v, want %+v", last[i].Path, got, want)
		}
	}
	if !slices.Contains(last[0].Why, "An upstream failed, and the request was sent again by another.") {
		t.Errorf("%q", last[0].Why)
	}
}
