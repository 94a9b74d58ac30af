package proxy_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/loginsites"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/internal/world"
	logins "github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/login/redislock"
)

// onLocks runs a test with the locks of one process and with those of a Redis.
func onLocks(t *testing.T, test func(t *testing.T, locks logins.Locks)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, new(logins.Memory))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, redislock.New(redistest.Single(t).Client(), "session:", patience))
	})
}

// three are the proxies of a world that share its locks.
func three(t *testing.T, site *loginsites.Site, recipe bool, locks logins.Locks) []*world.Proxy {
	t.Helper()
	rules := loginRules()
	if recipe {
		rules = withRecipe(rules)
	}
	w := loginWorld(t, site, rules, func(o *world.Options) { o.Locks = locks })
	return []*world.Proxy{w.Proxy, w.AddProxy(), w.AddProxy()}
}

// ask sends a request and reads its answer, however long a hundred at once take.
// It returns status, Location and body.
func ask(t *testing.T, p *world.Proxy, via world.Way, r *http.Request) (int, string, string) {
	t.Helper()
	resp, err := p.Client(via).Do(r)
	if err != nil {
		t.Errorf("%s %s: %v", r.Method, r.URL, err)
		return 0, "", ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	return resp.StatusCode, resp.Header.Get("Location"), string(body)
}

func askHello(t *testing.T, p *world.Proxy, via world.Way) {
	t.Helper()
	if status, to, body := ask(t, p, via, world.Request(t, http.MethodGet, via.URL("/account"), nil)); status != http.StatusOK || !strings.Contains(body, "Hello alice") {
		t.Errorf("answered %d to %q %q, want the page of a logged-in client", status, to, body)
	}
}

// mostlyH2 spares a busy machine a hundred handshakes at once. Its ways are of
// one port: another is another login.
func mostlyH2(i int) world.Way {
	if i%10 == 0 {
		return world.TunnelH1
	}
	return world.TunnelH2
}

// The session has expired, and a hundred clients find out through three
// proxies. One login reaches the site, and nobody sees its form.
func TestAHundredClientsAndARecipe(t *testing.T) {
	t.Parallel()
	onLocks(t, func(t *testing.T, locks logins.Locks) {
		site := loginsites.New(loginsites.Options{Latency: 50 * time.Millisecond})
		proxies := three(t, site, true, locks)
		for round := 1; round <= 2; round++ {
			each(100, func(i int) { askHello(t, proxies[i%3], mostlyH2(i)) })
			if site.Logins() != round || site.Attempts() != round {
				t.Errorf("round %d: %d logins of %d tries reached the site", round, site.Logins(), site.Attempts())
			}
			site.Expire()
		}
	})
}

func TestAHundredClientsSubmitTheForm(t *testing.T) {
	t.Parallel()
	onLocks(t, func(t *testing.T, locks logins.Locks) {
		site := loginsites.New(loginsites.Options{Latency: 50 * time.Millisecond})
		proxies := three(t, site, false, locks)
		token := formToken(t, proxies[0], world.TunnelH1)
		each(100, func(i int) {
			via := mostlyH2(i)
			if status, to, _ := ask(t, proxies[i%3], via, loginForm(t, via, loginsites.Password, token)); status != http.StatusSeeOther || to != "/account" {
				t.Errorf("answered %d to %q", status, to)
			}
		})
		if site.Logins() != 1 || site.Attempts() != 1 {
			t.Errorf("%d logins of %d tries reached the site", site.Logins(), site.Attempts())
		}
		each(100, func(i int) { askHello(t, proxies[i%3], mostlyH2(i)) })
	})
}

// A proxy that has the turn of a recipe is killed: it never ends it.
func TestAHolderThatIsKilled(t *testing.T) {
	t.Parallel()
	onLocks(t, func(t *testing.T, locks logins.Locks) {
		site := loginsites.New(loginsites.Options{})
		dying := &killed{Locks: locks}
		rules := withRecipe(loginRules())
		w := loginWorld(t, site, rules, func(o *world.Options) { o.Locks = dying })
		proxies := []*world.Proxy{w.Proxy, w.AddProxy(), w.AddProxy()}
		each(30, func(i int) { askHello(t, proxies[i%3], world.TunnelH1) })
		if !dying.died.Load() || site.Logins() != 1 {
			t.Errorf("killed %t, %d logins reached the site, want one after the one that was killed", dying.died.Load(), site.Logins())
		}
	})
}

// killed grants the first turn to a proxy that is dead by then.
type killed struct {
	logins.Locks
	died atomic.Bool
}

func (k *killed) Take(ctx context.Context, a logins.Ask) (logins.Grant, error) {
	if k.died.CompareAndSwap(false, true) {
		dead := a
		dead.Holder, dead.Life = logins.Mark+"dead", 500*time.Millisecond
		if _, err := k.Locks.Take(ctx, dead); err != nil {
			return logins.Grant{}, err
		}
	}
	return k.Locks.Take(ctx, a)
}

// A proxy that has sent a login is killed before its reply: a second one
// reaches the site, and no third. What the first brings is too late.
func TestAHolderThatIsKilledAfterSending(t *testing.T) {
	t.Parallel()
	onLocks(t, func(t *testing.T, locks logins.Locks) {
		second := make(chan struct{})
		site := loginsites.New(loginsites.Options{Single: true, OnLogin: func(n int) {
			if n == 1 {
				<-second
			}
		}})
		w := loginWorld(t, site, loginRules(), func(o *world.Options) { o.Locks = &mortal{Locks: locks} })
		proxies := []*world.Proxy{w.Proxy, w.AddProxy(), w.AddProxy()}
		token := formToken(t, w.Proxy, world.TunnelH1)
		var wg sync.WaitGroup
		wg.Go(func() { ask(t, proxies[0], world.TunnelH1, loginForm(t, world.TunnelH1, loginsites.Password, token)) })
		world.Eventually(t, "the first login is under way", func() bool { return site.Logins() == 1 })
		each(20, func(i int) {
			if status, to, _ := ask(t, proxies[1+i%2], world.TunnelH1, loginForm(t, world.TunnelH1, loginsites.Password, token)); status != http.StatusSeeOther || to != "/account" {
				t.Errorf("answered %d to %q", status, to)
			}
		})
		before, err := w.Store().Load(t.Context(), shopKey)
		if err != nil {
			t.Fatal(err)
		}
		close(second)
		wg.Wait()
		if after, _ := w.Store().Load(t.Context(), shopKey); after.Version() != before.Version() {
			t.Error("the first login has changed the session")
		}
		if site.Logins() != 2 {
			t.Errorf("%d logins reached the site, want two", site.Logins())
		}
	})
}

// mortal lets the first turn live for a moment, as if its proxy were dead.
type mortal struct {
	logins.Locks
	died atomic.Bool
}

func (m *mortal) Take(ctx context.Context, a logins.Ask) (logins.Grant, error) {
	if m.died.CompareAndSwap(false, true) {
		a.Life = 300 * time.Millisecond
	}
	return m.Locks.Take(ctx, a)
}

// A worker of another program takes the lock, as redis-py does, and logs in
// through the proxy; others wait, and need no login of their own.
func TestAWorkerLogsInThroughTheProxy(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t).Client()
	site := loginsites.New(loginsites.Options{Latency: 50 * time.Millisecond})
	proxies := three(t, site, true, redislock.New(redis, "session:", patience))
	if !redis.SetNX(t.Context(), "session:lock:"+world.Host, "worker-1", 300*time.Second).Val() {
		t.Fatal("the worker got no lock")
	}
	token := formToken(t, proxies[0], world.TunnelH1)
	var wg sync.WaitGroup
	for i := range 9 {
		wg.Go(func() { askHello(t, proxies[i%3], world.TunnelH1) })
	}
	time.Sleep(100 * time.Millisecond) // they are waiting; it holds without
	if site.Attempts() != 0 {
		t.Errorf("%d tries reached the site while the worker has the lock", site.Attempts())
	}
	if status, _, _ := ask(t, proxies[1], world.TunnelH1, loginForm(t, world.TunnelH1, loginsites.Password, token)); status != http.StatusSeeOther {
		t.Errorf("the worker's own login: answered %d", status)
	}
	redis.Del(t.Context(), "session:lock:"+world.Host)
	wg.Wait()
	if site.Logins() != 1 {
		t.Errorf("%d logins reached the site, want the worker's", site.Logins())
	}
}

// How a session stands is known to all proxies, whoever has seen it.
func TestAllProxiesKnowHowASessionStands(t *testing.T) {
	t.Parallel()
	onLocks(t, func(t *testing.T, locks logins.Locks) {
		site := loginsites.New(loginsites.Options{})
		rules := withRecipe(loginRules())
		rules.Accounts[0].Password = "wrong"
		w := loginWorld(t, site, rules, func(o *world.Options) { o.Locks = locks })
		other := w.AddProxy()
		if s := other.LoginStatus(t.Context(), shopKey); s.Verdict != logins.Unknown || s.Failed != nil {
			t.Errorf("before: %+v", s)
		}
		w.Get(t, world.TunnelH1, "/account")
		if s := other.LoginStatus(t.Context(), shopKey); s.Verdict != logins.Out || s.Rule != "logged_out.redirect" || s.Failed == nil || !strings.Contains(s.Failed.Why, "logged_out.body") {
			t.Errorf("what the other has seen: %+v, %v; want logged out, and why its login rests", s.Shown, s.Failed)
		}
		submit(t, other, world.TunnelH1, loginsites.Password)
		late := w.AddProxy() // as after a restart
		for i, p := range []*world.Proxy{w.Proxy, other, late} {
			if s := p.LoginStatus(t.Context(), shopKey); s.Verdict != logins.In || s.Rule != "logged_in" {
				t.Errorf("proxy %d, after a login: %+v", i, s.Shown)
			}
		}
		if err := w.Revoke(t.Context(), shopKey); err != nil {
			t.Fatal(err)
		}
		if s := late.LoginStatus(t.Context(), shopKey); s.Verdict != logins.Unknown {
			t.Errorf("after it was revoked: %+v", s.Shown)
		}
	})
}
