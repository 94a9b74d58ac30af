package session

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestMerge(t *testing.T) {
	t.Parallel()
	const (
		own    = Own
		nav    = CrossNavigation
		cross  = Cross
		secure = "; Secure"
	)
	for _, tt := range []struct {
		name   string
		set    []string // by https://shop.test/app/
		client []string
		whose  Whose
		want   string
	}{
		{"an empty jar leaves the client alone", nil, []string{"a=1;b=2;  c=3;"}, own, "a=1;b=2;  c=3;"},
		{"no cookies at all", nil, nil, own, ""},
		{"the jar's cookies go", []string{"sid=1; Path=/", "lang=en; Path=/"}, nil, own, "sid=1; lang=en"},
		{"longer paths first", []string{"a=1; Path=/", "b=1; Path=/app"}, nil, own, "b=1; a=1"},
		{"behind the client's own", []string{"sid=1; Path=/"}, []string{"mine=x; theirs=y"}, own, "mine=x; theirs=y; sid=1"},
		{"raw bytes of the client stay", []string{"sid=1; Path=/"}, []string{`j={"k":"v"};q="a b";  u=` + "\xff"}, own, `j={"k":"v"};q="a b";  u=` + "\xff; sid=1"},
		{"a stale copy is replaced in its place", []string{"sid=1; Path=/"}, []string{"a=x; sid=0; b=y"}, own, "a=x; sid=1; b=y"},
		{"the first of the client's", []string{"sid=1; Path=/"}, []string{"sid=0;b=y;c=z"}, own, "sid=1; b=y;c=z"},
		{"every copy is replaced", []string{"sid=1; Path=/"}, []string{"sid=0; a=x; sid=9; sid=1"}, own, "sid=1; a=x"},
		{"a fresh copy stays", []string{"sid=1; Path=/"}, []string{"a=x;sid=1;b=y"}, own, "a=x;sid=1;b=y"},
		{"and others follow it", []string{"sid=1; Path=/", "lang=en; Path=/"}, []string{"sid=1;b=y"}, own, "sid=1;b=y; lang=en"},
		{"all jar cookies of a name go, longest path first", []string{"k=root; Path=/", "k=app; Path=/app"}, []string{"a=x; k=old; b=y"}, own, "a=x; k=app; k=root; b=y"},
		{"also where the client has one of them", []string{"k=root; Path=/", "k=app; Path=/app"}, []string{"k=root"}, own, "k=app; k=root"},
		{"crumbs are joined", []string{"sid=1; Path=/"}, []string{"a=x", "sid=0", "b=y"}, own, "a=x; sid=1; b=y"},
		{"crumbs are joined without a jar, too", nil, []string{"a=x", "b=y"}, own, "a=x; b=y"},
		{"empty crumbs vanish", []string{"sid=1; Path=/"}, []string{"", " ; ", "a=x"}, own, "a=x; sid=1"},
		{"names are compared with case", []string{"SID=1; Path=/"}, []string{"sid=0"}, own, "sid=0; SID=1"},
		{"a prefix of a name is another name", []string{"sid=1; Path=/"}, []string{"sid2=0; xsid=0"}, own, "sid2=0; xsid=0; sid=1"},
		{"spaces around a name do not hide it", []string{"sid=1; Path=/"}, []string{"sid =0"}, own, "sid=1"},
		{"a nameless cookie is replaced by the nameless one", []string{"token; Path=/", "a=1; Path=/"}, []string{"old; a=1"}, own, "token; a=1"},
		{"a cookie for elsewhere does not touch the client's", []string{"sid=1; Path=/admin"}, []string{"sid=mine"}, own, "sid=mine"},
		{"an expired one neither", []string{"sid=1; Path=/; Max-Age=1"}, []string{"sid=mine"}, own, "sid=mine"},
		{"a private name is never sent from the shared jar", []string{"csrftoken=1; Path=/", "sid=1; Path=/"}, []string{"csrftoken=mine"}, own, "csrftoken=mine; sid=1"},

		{"a cross navigation gets None, Lax and unspecified", []string{"n=1; Path=/; SameSite=None" + secure, "l=1; Path=/; SameSite=Lax", "s=1; Path=/; SameSite=Strict", "d=1; Path=/"}, nil, nav, "n=1; l=1; d=1"},
		{"a Strict cookie that the browser sent is fresh", []string{"s=1; Path=/; SameSite=Strict", "l=1; Path=/; SameSite=Lax"}, []string{"s=0"}, nav, "s=1; l=1"},
		{"a cross request gets nothing new", []string{"n=1; Path=/; SameSite=None" + secure, "d=1; Path=/"}, nil, cross, ""},
		{"but fresh values of what it sent", []string{"n=1; Path=/; SameSite=None" + secure, "d=1; Path=/"}, []string{"x=y; n=0"}, cross, "x=y; n=1"},
		{"no more copies than it sent", []string{"k=s; Path=/app; SameSite=Strict", "k=n; Path=/; SameSite=None" + secure}, []string{"k=0"}, cross, "k=n"},
		{"the most lenient first", []string{"k=s; Path=/app; SameSite=Strict", "k=l; Path=/; SameSite=Lax"}, []string{"k=0"}, nav, "k=l"},
		{"all where it sent all, and what is too many is cut", []string{"k=s; Path=/app; SameSite=Strict", "k=l; Path=/; SameSite=Lax"}, []string{"k=0; k=9; k=8"}, nav, "k=l; k=s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			jar := new(Jar).reply(t, "https://shop.test/app/", tt.set...)
			r := request(t, "https://shop.test/app/page")
			r.Whose, r.Now = tt.whose, noon.Add(time.Minute)
			if got := Merge(tt.client, r, jar, nil, sharing).Header; got != tt.want {
				t.Errorf("jar %q, client %q: Cookie %q, want %q", jar.pairs(), tt.client, got, tt.want)
			}
		})
	}
}

func TestMergeCounts(t *testing.T) {
	t.Parallel()
	jar := new(Jar).reply(t, shop, "a=1", "b=1; SameSite=Strict", "c=1; Path=/elsewhere", "csrftoken=1")
	for _, tt := range []struct {
		name               string
		client             []string
		whose              Whose
		injected, withheld int
	}{
		{"own", nil, Own, 2, 0},
		{"own, with copies", []string{"a=1; b=0"}, Own, 2, 0},
		{"cross navigation", nil, CrossNavigation, 1, 1},
		{"cross", nil, Cross, 0, 2},
		{"cross, with a copy", []string{"a=0"}, Cross, 1, 1},
	} {
		r := request(t, shop)
		r.Whose = tt.whose
		if m := Merge(tt.client, r, jar, nil, sharing); m.Injected != tt.injected || m.Withheld != tt.withheld || m.Dropped != 0 {
			t.Errorf("%s: %+v, want %d injected and %d withheld", tt.name, m, tt.injected, tt.withheld)
		}
	}
}

func TestMergeReturnsAnUnchangedLineItself(t *testing.T) {
	jar := new(Jar).reply(t, shop, "sid=1", "lang=en")
	client := []string{"a=x;  sid=1;lang=en;"}
	r := request(t, shop)
	if got := Merge(client, r, jar, nil, sharing); got.Header != client[0] || got.Injected != 2 {
		t.Errorf("%+v, want the client's line", got)
	}
	if n := testing.AllocsPerRun(100, func() { Merge(client, r, jar, nil, sharing) }); n != 0 {
		t.Errorf("%g allocations, want 0", n)
	}
}

func TestMergeAllocatesLittle(t *testing.T) {
	jar := manyCookies(t, 5)
	r := request(t, "https://www.shop.test/cart/1")
	if n := testing.AllocsPerRun(100, func() { Merge([]string{"a=x; cookie_1=old; b=y"}, r, jar, nil, sharing) }); n > 2 {
		t.Errorf("%g allocations, want 2 at most", n)
	}
}

func TestClientWins(t *testing.T) {
	t.Parallel()
	p := NewPolicy([]string{"*"}, nil, true)
	jar := new(Jar).reply(t, shop, "sid=1", "lang=en")
	for client, want := range map[string]string{
		"sid=mine; sid=again":   "sid=mine; sid=again; lang=en",
		"lang=de":               "lang=de; sid=1",
		"lang=de;other=x;sid=2": "lang=de;other=x;sid=2",
	} {
		if got := Merge([]string{client}, request(t, shop), jar, nil, p).Header; got != want {
			t.Errorf("client %q: Cookie %q, want %q", client, got, want)
		}
	}
}

func TestShareGlobs(t *testing.T) {
	t.Parallel()
	p := NewPolicy([]string{"sid", "app_*"}, []string{"app_csrf"}, false)
	jar := new(Jar).reply(t, shop, "sid=1", "app_a=1", "app_csrf=1", "tracking=1")
	if got := Merge([]string{"tracking=mine"}, request(t, shop), jar, nil, p).Header; got != "tracking=mine; sid=1; app_a=1" {
		t.Errorf("Cookie %q", got)
	}
}

func TestLogout(t *testing.T) {
	t.Parallel()
	shared := new(Jar).reply(t, shop, "sid=1", "lang=en; Path=/elsewhere", "gone=1; Max-Age=1")
	private := new(Jar).reply(t, shop, "csrftoken=t")
	r := request(t, shop)
	r.Logout, r.Now = true, noon.Add(time.Minute)
	m := Merge([]string{"a=x; sid=0; sid=1; lang=de; gone=0; b=y"}, r, shared, private, sharing)
	if m.Header != "a=x; b=y; csrftoken=t" || m.Withheld != 1 {
		t.Errorf("%+v, want the client's own and the worker's token", m)
	}
	p := NewPolicy([]string{"*"}, nil, true)
	if got := Merge([]string{"sid=0; b=y"}, r, shared, nil, p).Header; got != "b=y" {
		t.Errorf("though the client wins: Cookie %q, want b=y", got)
	}
}

func TestPrivateJar(t *testing.T) {
	t.Parallel()
	shared := new(Jar).reply(t, shop, "sid=1", "z=1")
	private := new(Jar).reply(t, shop, "csrftoken=mine; Path=/", "notprivate=1").reply(t, shop, "sid=2")
	for _, tt := range []struct{ name, client, want string }{
		{"the worker's own are added", "a=x", "a=x; sid=1; csrftoken=mine; z=1"},
		{"a worker that keeps the token itself keeps it", "csrftoken=old", "csrftoken=old; sid=1; z=1"},
	} {
		if got := Merge([]string{tt.client}, request(t, shop), shared, private, sharing).Header; got != tt.want {
			t.Errorf("%s: Cookie %q, want %q", tt.name, got, tt.want)
		}
	}
	deep := new(Jar).reply(t, shop, "csrftoken=deep; Path=/app")
	if got := Merge(nil, request(t, "https://shop.test/app"), shared, deep, sharing).Header; got != "csrftoken=deep; sid=1; z=1" {
		t.Errorf("RFC order across the jars: Cookie %q", got)
	}
}

func TestHeaderStopsAt8K(t *testing.T) {
	t.Parallel()
	kilo := strings.Repeat("v", 1000)
	jar := new(Jar)
	for i := range 12 {
		jar = jar.reply(t, shop, fmt.Sprintf("c%d=%s", i, kilo))
	}
	login := Update{Base: Latest, Writer: ByLogin, Cookies: mustParse(t, shop, noon, "sid="+kilo)}
	jar, _ = jar.Apply(login, at(time.Second))

	m := Merge(nil, request(t, shop), jar, nil, sharing)
	if len(m.Header) > MaxHeader || len(m.Header) < MaxHeader-1100 {
		t.Errorf("header of %d bytes, want at most %d and no more dropped than needed", len(m.Header), MaxHeader)
	}
	for _, name := range []string{"c0=", "c6=", "sid="} {
		if !strings.Contains(m.Header, name) {
			t.Errorf("%s dropped", name)
		}
	}
	if strings.Contains(m.Header, "c7=") || m.Dropped != 5 || m.Injected != 8 {
		t.Errorf("dropped %d, injected %d: want the last 5 of 13 dropped, the login kept", m.Dropped, m.Injected)
	}

	client := strings.Repeat("x", 7000)
	m = Merge([]string{"mine=" + client + "; c3=old"}, request(t, shop), jar, nil, sharing)
	if !strings.HasPrefix(m.Header, "mine="+client+"; ") || !strings.Contains(m.Header, "sid=") || m.Injected != 1 {
		t.Errorf("with a long cookie of the client: %d injected, want the login alone", m.Injected)
	}
	m = Merge([]string{"mine=" + client + client}, request(t, shop), jar, nil, sharing)
	if m.Header != "mine="+client+client {
		t.Errorf("a client beyond the bound by itself: header of %d bytes, want its own %d", len(m.Header), 14005)
	}
	exact := new(Jar).reply(t, shop, "a="+kilo+kilo+kilo+kilo, "b="+kilo+kilo+kilo+kilo, "c="+strings.Repeat("v", MaxHeader-8000-3*len("a=")-2*len("; ")))
	if m := Merge(nil, request(t, shop), exact, nil, sharing); len(m.Header) != MaxHeader || m.Dropped != 0 {
		t.Errorf("just 8 KB: %d bytes, %d dropped", len(m.Header), m.Dropped)
	}
}

func TestMergeOfAJarThatIsNotSmall(t *testing.T) {
	t.Parallel()
	jar := manyCookies(t, 150)
	m := Merge([]string{"cookie_149=old"}, request(t, "https://www.shop.test/"), jar, nil, sharing)
	if m.Injected+m.Dropped != 150 || !strings.HasPrefix(m.Header, "cookie_149=vvv") {
		t.Errorf("injected %d, dropped %d of 150", m.Injected, m.Dropped)
	}
}
