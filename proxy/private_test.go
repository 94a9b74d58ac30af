package proxy_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/session"
)

var (
	worker1 = world.User{Name: "crawler-worker-1"}
	worker2 = world.User{Name: "crawler-worker-2"}
)

// wantCookies is wantCookie in order of name: the two jars are written at once.
func wantCookies(t *testing.T, a *world.Answer, want string) {
	t.Helper()
	pairs := strings.Split(a.Text, "; ")
	slices.Sort(pairs)
	a.Text = strings.Join(pairs, "; ")
	wantCookie(t, a, want)
}

// A CSRF token is good for the client that was shown the form.
func TestPrivateCookiesStayWithTheirWorker(t *testing.T) {
	t.Parallel()
	token := set("sid=a1; Path=/", "csrftoken=one; Path=/")
	for _, via := range world.Ways {
		t.Run(via.Name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Handler: login})
			w.GetAs(t, via, worker1, token)
			wantCookies(t, w.GetAs(t, via, worker1, "/"), "csrftoken=one; sid=a1")
			wantCookie(t, w.GetAs(t, via, worker2, "/"), "sid=a1")
			w.GetAs(t, via, worker2, set("csrftoken=two; Path=/"))
			wantCookies(t, w.GetAs(t, via, worker1, "/"), "csrftoken=one; sid=a1")
			wantCookies(t, w.GetAs(t, via, worker2, "/"), "csrftoken=two; sid=a1")
			wantCookie(t, w.GetAs(t, via, world.User{Name: "crawler-worker-1-session-qa"}, "/"), "")
		})
	}
}

func TestWhoKeepsPrivateCookiesItselfIsGivenNone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		before, after []string // fields of the first and the second request
		want          string
	}{
		{"a worker that keeps none is given its own", nil, nil, "csrftoken=one"},
		{"a worker that sends one keeps its own, once", nil, []string{"Cookie", "csrftoken=mine"}, "csrftoken=mine"},
		{"a worker that has sent one is not given it back", []string{"Cookie", "csrftoken=old"}, nil, ""},
		{"a browser is given none", []string{"Sec-Fetch-Site", "same-origin"}, []string{"Sec-Fetch-Site", "same-origin"}, ""},
		{"a browser on plain http is none the less one", []string{"Sec-Fetch-Site", "none", "User-Agent", "Chromium"},
			[]string{"User-Agent", "Chromium", "Referer", "https://shop.test/"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Handler: login})
			w.GetAs(t, world.TunnelH1, worker1, set("csrftoken=one; Path=/"), tt.before...)
			wantCookie(t, w.GetAs(t, world.TunnelH1, worker1, "/", tt.after...), tt.want)
		})
	}
}

func TestARevokedSessionStaysRevoked(t *testing.T) {
	t.Parallel()
	key := session.Key{Site: world.Host, ID: session.DefaultID}
	for _, via := range world.Ways {
		t.Run(via.Name, func(t *testing.T) {
			t.Parallel()
			arrived, answer := make(chan bool), make(chan bool)
			w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					arrived <- true
					<-answer
					w.Header()["Set-Cookie"] = []string{"sid=late; Path=/", "csrftoken=x; Path=/"}
					return
				}
				login(w, r)
			})})
			w.GetAs(t, via, worker1, set("sid=a1; Path=/", "csrftoken=one; Path=/"))
			got := make(chan []string)
			go func() { got <- w.GetAs(t, via, worker2, "/slow").Header["Set-Cookie"] }()
			<-arrived
			if err := w.Proxy.Revoke(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			answer <- true
			if given := <-got; !slices.Equal(given, []string{"csrftoken=x; Path=/"}) {
				t.Errorf("a reply under way gave its client %q, want what is not the session's alone", given)
			}
			wantCookie(t, w.GetAs(t, via, worker1, "/"), "")
			wantCookie(t, w.GetAs(t, via, worker2, "/", "Cookie", "sid=stale; theme=dark"), "theme=dark")
			w.GetAs(t, via, worker1, set("sid=a2; Path=/"))
			wantCookie(t, w.GetAs(t, via, worker2, "/", "Cookie", "sid=stale; theme=dark"), "sid=a2; theme=dark")
		})
	}
}

func TestTwoClientsMayCallTheirWorkersTheSame(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: login})
	w.GetAs(t, world.TunnelH1, world.User{Name: "a-worker-1"}, set("csrftoken=a; Path=/"))
	wantCookie(t, w.GetAs(t, world.TunnelH1, world.User{Name: "b-worker-1"}, "/"), "")
	wantCookie(t, w.GetAs(t, world.TunnelH1, world.User{Name: "a-worker-1"}, "/"), "csrftoken=a")
}

// The handshake left before the session was revoked, and the answer came after.
func TestALateWebSocketOfARevokedSessionCloses(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan bool), make(chan bool)
	w := world.New(t, world.Options{Script: func(c *world.Conn) {
		c.Head()
		asked <- true
		<-answer
		c.Send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(io.Discard, c.R)
	}})
	c := w.Connect(t, world.Host+":443").TLS(world.Host)
	c.Send(world.Head("GET", world.TunnelH1, "/ws", "Connection: Upgrade", "Upgrade: websocket"))
	<-asked
	if err := w.Proxy.Revoke(t.Context(), session.Key{Site: world.Host, ID: session.DefaultID}); err != nil {
		t.Fatal(err)
	}
	answer <- true
	c.Head()
	c.WantEnd()
}

func TestALogoutIsKnownByAnySpelling(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: login, Config: func(c *config.Config) {
		c.Sites[0].Cookies.ProtectLogout = []string{"*/logout*", "*action=logout*"}
	}})
	w.Get(t, world.TunnelH1, set("sid=a1; Path=/"))
	for path, want := range map[string]string{
		"/logout": "", "/LogOut?x=1": "", "/log%6fut": "", "/a?action=logout": "", "/a?action=log%6Fut": "", "/lock": "sid=a1",
	} {
		wantCookie(t, w.Get(t, world.TunnelH1, path), want)
	}
}

// What the operator sets is no evidence of who made the request.
func TestTheOperatorsHeadersSayNothingOfTheClient(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: login, Config: func(c *config.Config) {
		c.Sites[0].Headers = map[string]string{"User-Agent": "one for all"}
	}})
	w.Get(t, world.TunnelH1, set("sid=a1; Path=/"))
	w.Get(t, world.TunnelH1, "/", "Sec-Fetch-Site", "same-origin", "User-Agent", "Chromium")
	r := world.Request(t, http.MethodPost, world.TunnelH1.URL("/"), nil, "User-Agent", "scraper")
	wantCookie(t, world.Do(t, w.Client(world.TunnelH1), r), "sid=a1")
}
