package session

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

const shop = "https://shop.test/"

// a history is a jar and the versions that requests left with.
type history struct {
	*testing.T
	jar   *Jar
	clock int64
}

func newHistory(t *testing.T) *history { return &history{T: t, jar: new(Jar), clock: at(0)} }

// apply makes one change a second after the last, and returns its outcome.
func (h *history) apply(u Update, line string) Outcome {
	h.Helper()
	h.clock += int64(time.Second / time.Microsecond)
	u.Cookies = mustParse(h.T, shop, microTime(h.clock), line)
	var outcomes []Outcome
	h.jar, outcomes = h.jar.Apply(u, h.clock)
	return outcomes[0]
}

func (h *history) want(when string, outcome, want Outcome, pairs ...string) {
	h.Helper()
	if outcome != want {
		h.Errorf("%s: outcome %d, want %d", when, outcome, want)
	}
	if got := h.jar.pairs(); !slices.Equal(got, pairs) {
		h.Errorf("%s: jar has %q, want %q", when, got, pairs)
	}
}

func TestLateReplies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		first   Update // what set or deleted the cookie while the late request was under way
		line    string
		late    Update
		lateSet string
		want    Outcome
		pairs   []string
	}{
		{"the last of two replies wins", Update{}, "sid=1", Update{}, "sid=2", Changed, []string{"sid=2"}},
		{"a late reply deletes nothing", Update{}, "sid=1", Update{}, "sid=; Max-Age=0", Late, []string{"sid=1"}},
		{"a timid late reply sets nothing", Update{}, "sid=1", Update{Timid: true}, "sid=2", Late, []string{"sid=1"}},
		{"a late reply leaves a login alone", Update{Writer: ByLogin}, "sid=1", Update{}, "sid=2", Late, []string{"sid=1"}},
		{"and the proxy's own login", Update{Writer: ByRecipe}, "sid=1", Update{}, "sid=2", Late, []string{"sid=1"}},
		{"and an import", Update{Writer: ByImport}, "sid=1", Update{}, "sid=2", Late, []string{"sid=1"}},
		{"and the operator", Update{Writer: ByOperator}, "sid=1", Update{}, "sid=2", Late, []string{"sid=1"}},
		{"and a worker", Update{Writer: ByWorker}, "sid=1", Update{}, "sid=2", Late, []string{"sid=1"}},
		{"a late login leaves a newer login alone", Update{Writer: ByLogin}, "sid=1", Update{Writer: ByLogin}, "sid=2", Late, []string{"sid=1"}},
		{"a late login replaces a reply's", Update{}, "sid=1", Update{Writer: ByLogin}, "sid=2", Changed, []string{"sid=2"}},
		{"writers that are no reply are never late", Update{Writer: ByLogin}, "sid=1", Update{Base: Latest, Writer: ByOperator}, "sid=2", Changed, []string{"sid=2"}},
		{"what a late reply repeats is no change", Update{Writer: ByLogin}, "sid=1", Update{}, "sid=1", Unchanged, []string{"sid=1"}},
		{"a late reply may set what a reply deleted", Update{}, "sid=; Max-Age=0", Update{}, "sid=2", Changed, []string{"sid=2"}},
		{"unless it is timid", Update{}, "sid=; Max-Age=0", Update{Timid: true}, "sid=2", Late, nil},
		{"but not what the operator deleted", Update{Base: Latest, Writer: ByOperator}, "sid=; Max-Age=0", Update{}, "sid=2", Late, nil},
		{"a late logged-out reply leaves a login alone", Update{Writer: ByLogin}, "sid=1", Update{LoggedOut: true}, "sid=2", Late, []string{"sid=1"}},
		{"and sets what replies set", Update{}, "sid=1", Update{LoggedOut: true}, "sid=2", Changed, []string{"sid=2"}},
		{"another cookie is another matter", Update{Writer: ByLogin}, "sid=1", Update{}, "lang=en", Changed, []string{"sid=1", "lang=en"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHistory(t)
			h.apply(Update{}, "sid=0")
			left := h.jar.Version()
			if tt.first.Base == 0 {
				tt.first.Base = left
			}
			if tt.late.Base == 0 {
				tt.late.Base = left
			}
			if got := h.apply(tt.first, tt.line); got != Changed {
				t.Fatalf("first change: outcome %d", got)
			}
			h.want("late change", h.apply(tt.late, tt.lateSet), tt.want, tt.pairs...)
		})
	}
}

func TestRepliesInTime(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		writer Writer
		u      Update
		line   string
		want   Outcome
		pairs  []string
	}{
		{"a reply replaces a login's cookie", ByLogin, Update{}, "sid=2", Changed, []string{"sid=2"}},
		{"a reply deletes a login's cookie", ByLogin, Update{}, "sid=; Max-Age=0", Changed, nil},
		{"a timid reply sets", ByReply, Update{Timid: true}, "sid=2", Changed, []string{"sid=2"}},
		{"a logged-out reply leaves a login's cookie", ByLogin, Update{LoggedOut: true}, "sid=2", Guarded, []string{"sid=1"}},
		{"and does not delete it", ByRecipe, Update{LoggedOut: true}, "sid=; Max-Age=0", Guarded, []string{"sid=1"}},
		{"it repeats it", ByImport, Update{LoggedOut: true}, "sid=1", Unchanged, []string{"sid=1"}},
		{"it replaces what replies set", ByReply, Update{LoggedOut: true}, "sid=2", Changed, []string{"sid=2"}},
		{"and sets what is not there", ByLogin, Update{LoggedOut: true}, "state=2", Changed, []string{"sid=1", "state=2"}},
		{"what was never there is not deleted", ByReply, Update{}, "gone=; Max-Age=0", Unchanged, []string{"sid=1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHistory(t)
			h.apply(Update{Writer: tt.writer}, "sid=1")
			tt.u.Base = h.jar.Version()
			h.want("change", h.apply(tt.u, tt.line), tt.want, tt.pairs...)
		})
	}
}

// A site gives a login's session new values as it goes. They are the login's
// still: to a logged-out reply, and to a reply that left before the login.
func TestALoginSurvivesItsRenewals(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.apply(Update{}, "sid=anonymous")
	before := h.jar.Version()
	h.want("the login", h.apply(Update{Base: before, Writer: ByLogin}, "sid=1"), Changed, "sid=1")
	login := h.jar.Login()
	h.want("a renewal", h.apply(Update{Base: h.jar.Version()}, "sid=2"), Changed, "sid=2")
	if h.jar.Login() != login || h.jar.Renewed() != h.jar.Version() || h.jar.Cookies()[0].Writer != ByReply {
		t.Errorf("login %d, renewed %d of %d; want login %d, renewed just now", h.jar.Login(), h.jar.Renewed(), h.jar.Version(), login)
	}
	h.want("a reply that left before the login", h.apply(Update{Base: before}, "sid=anonymous2"), Late, "sid=2")
	h.want("a logged-out reply", h.apply(Update{Base: h.jar.Version(), LoggedOut: true}, "sid=anonymous3"), Guarded, "sid=2")
	h.want("a reply that left after the login", h.apply(Update{Base: login}, "sid=3"), Changed, "sid=3")
	h.want("the next login", h.apply(Update{Base: h.jar.Version(), Writer: ByRecipe}, "sid=4"), Changed, "sid=4")
	h.want("one that keeps the value", h.apply(Update{Base: h.jar.Version(), Writer: ByLogin}, "sid=4"), Changed, "sid=4")
	if h.jar.Login() != h.jar.Version() {
		t.Errorf("login %d, want %d", h.jar.Login(), h.jar.Version())
	}
}

func TestAReplyMayNameACookieTwice(t *testing.T) {
	t.Parallel()
	jar := new(Jar).reply(t, shop, "sid=0")
	u := Update{Base: jar.Version(), Timid: true, Cookies: mustParse(t, shop, noon, "sid=1", "sid=; Max-Age=0", "sid=2", "sid=3")}
	jar, outcomes := jar.Apply(u, at(time.Second))
	if want := []Outcome{Changed, Changed, Changed, Changed}; !slices.Equal(outcomes, want) {
		t.Errorf("outcomes %d, want %d", outcomes, want)
	}
	if got := jar.pairs(); !slices.Equal(got, []string{"sid=3"}) {
		t.Errorf("jar has %q, want the last", got)
	}
}

func TestRevokedMeansRevoked(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.apply(Update{}, "sid=1")
	h.apply(Update{Base: h.jar.Version()}, "lang=en")
	before := h.jar.Version()
	h.jar = h.jar.Revoke(h.clock)
	if h.jar.Floor() <= before || h.jar.Version() != h.jar.Floor() {
		t.Fatalf("floor %d and version %d after %d", h.jar.Floor(), h.jar.Version(), before)
	}
	after := h.jar.Version()

	h.want("a reply that left before", h.apply(Update{Base: before}, "sid=2"), Revoked)
	h.want("even a login", h.apply(Update{Base: before, Writer: ByLogin}, "sid=2"), Revoked)
	h.want("or another cookie", h.apply(Update{Base: before}, "new=2"), Revoked)
	h.want("a worker that writes back what it has", h.apply(Update{Base: Latest, Writer: ByWorker}, "sid=1"), Revoked)
	if got := merged(t, h.jar, "sid=1; lang=en; mine=1"); got != "mine=1" {
		t.Errorf("a client's revoked cookies: sent %q, want mine=1", got)
	}

	h.want("a reply that left after", h.apply(Update{Base: after}, "sid=3"), Changed, "sid=3")
	if got := merged(t, h.jar, "sid=1; lang=en; mine=1"); got != "sid=3; mine=1" {
		t.Errorf("after sid was set again: sent %q, want sid=3; mine=1", got)
	}
	h.want("now workers may set it, too", h.apply(Update{Base: Latest, Writer: ByWorker}, "sid=4"), Changed, "sid=4")
	h.want("the old reply still may not", h.apply(Update{Base: before}, "lang=de"), Revoked, "sid=4")
}

func TestRevokeOfAnEmptyJarHasAFloor(t *testing.T) {
	t.Parallel()
	jar := new(Jar).Revoke(at(0))
	if _, got := jar.Apply(Update{Base: 0, Cookies: mustParse(t, shop, noon, "sid=1")}, at(1)); got[0] != Revoked {
		t.Errorf("a reply that left before: outcome %d, want %d", got[0], Revoked)
	}
}

func TestNamesStayRevokedWhenRevokedAgain(t *testing.T) {
	t.Parallel()
	jar := new(Jar).reply(t, shop, "a=1").Revoke(at(time.Second)).reply(t, shop, "b=1").Revoke(at(2 * time.Second))
	if got := merged(t, jar, "a=1; b=1; c=1"); got != "c=1" {
		t.Errorf("sent %q, want c=1", got)
	}
}

func TestClear(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.apply(Update{Writer: ByLogin}, "sid=1")
	left := h.jar.Version()
	h.jar = h.jar.Clear(h.clock)
	if len(h.jar.Cookies()) > 0 || h.jar.Floor() != 0 || h.jar.Version() <= left {
		t.Fatalf("%q left, floor %d, version %d", h.jar.pairs(), h.jar.Floor(), h.jar.Version())
	}
	h.want("a timid reply under way", h.apply(Update{Base: left, Timid: true}, "sid=2"), Late)
	h.want("a reply under way fills it anew", h.apply(Update{Base: left}, "sid=2"), Changed, "sid=2")
}

func TestReplace(t *testing.T) {
	t.Parallel()
	jar := new(Jar).reply(t, shop, "a=1", "b=1", "c=1")
	left := jar.Version()
	jar, outcomes := jar.Apply(Update{
		Base: Latest, Writer: ByImport, Replace: true, Cookies: mustParse(t, shop, noon, "b=1", "d=1"),
	}, at(time.Second))
	if !slices.Equal(jar.pairs(), []string{"b=1", "d=1"}) || outcomes[1] != Changed {
		t.Fatalf("jar has %q, outcomes %d", jar.pairs(), outcomes)
	}
	jar, outcomes = jar.Apply(Update{Base: left, Cookies: mustParse(t, shop, noon, "a=2")}, at(2*time.Second))
	if outcomes[0] != Late {
		t.Errorf("a late reply sets what the import left out: jar has %q", jar.pairs())
	}
}

func TestVersionsRise(t *testing.T) {
	t.Parallel()
	jar := new(Jar).reply(t, shop, "a=1", "b=1")
	if a, b := jar.Cookies()[0].Version, jar.Cookies()[1].Version; a != at(0) || b != a+1 || jar.Version() != b {
		t.Errorf("versions %d and %d of %d, want %d and one more", a, b, jar.Version(), at(0))
	}
	before := jar.Version()
	jar, _ = jar.Apply(Update{Base: Latest, Cookies: mustParse(t, shop, noon, "c=1")}, at(-time.Hour))
	if jar.Version() != before+1 {
		t.Errorf("with a clock that went back: version %d, want %d", jar.Version(), before+1)
	}
}

func TestRenewals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		after time.Duration
		line  string
		want  Outcome
	}{
		{"the same again", 0, "sid=1; Max-Age=1000", Unchanged},
		{"a renewal within a tenth of the life", 99 * time.Second, "sid=1; Max-Age=1000", Unchanged},
		{"a renewal after a tenth of the life", 101 * time.Second, "sid=1; Max-Age=1000", Changed},
		{"a longer life", 0, "sid=1; Max-Age=1200", Changed},
		{"a shorter life", 0, "sid=1; Max-Age=900", Changed},
		{"an end that only the clocks moved", 0, "sid=1; Expires=Tue, 01 Dec 2026 12:16:40 GMT", Unchanged},
		{"a session cookie from now on", 0, "sid=1", Changed},
		{"another value", 0, "sid=2; Max-Age=1000", Changed},
		{"another attribute", 0, "sid=1; Max-Age=1000; HttpOnly", Changed},
		{"another priority", 0, "sid=1; Max-Age=1000; Priority=High", Changed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			jar := new(Jar).reply(t, shop, "sid=1; Max-Age=1000")
			now := noon.Add(tt.after)
			next, got := jar.Apply(Update{Base: jar.Version(), Cookies: mustParse(t, shop, now, tt.line)}, now.UnixMicro())
			if got[0] != tt.want {
				t.Errorf("outcome %d, want %d", got[0], tt.want)
			}
			if (next == jar) != (tt.want == Unchanged) {
				t.Errorf("same jar: %t", next == jar)
			}
		})
	}
}

func TestARenewalKeepsTheWriter(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.apply(Update{Writer: ByLogin}, "sid=1; Max-Age=1000")
	left := h.jar.Version()
	h.want("renewal", h.apply(Update{Base: left}, "sid=1; Max-Age=2000"), Changed, "sid=1")
	if got := h.jar.Cookies()[0].Writer; got != ByLogin {
		t.Errorf("writer %d, want %d", got, ByLogin)
	}
	h.want("late reply", h.apply(Update{Base: left}, "sid=0"), Late, "sid=1")
}

// As many old values are known as requests are likely to be under way at once.
func TestOldValuesAreForgottenInTheEnd(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.apply(Update{}, "sid=0")
	left := h.jar.Version()
	for n := 1; n <= maxPast+1; n++ {
		h.apply(Update{Base: h.jar.Version()}, fmt.Sprintf("sid=%d", n))
	}
	newest := fmt.Sprintf("sid=%d", maxPast+1)
	h.want("the oldest known", h.apply(Update{Base: left}, "sid=1"), Late, newest)
	h.want("an older one", h.apply(Update{Base: left}, "sid=0"), Changed, "sid=0")
	h.want("a late login's", h.apply(Update{Base: left, Writer: ByLogin}, newest), Changed, newest)
}

func TestALoginThatKeepsTheValueTakesItOver(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.apply(Update{}, "sid=1")
	left := h.jar.Version()
	h.want("login", h.apply(Update{Base: left, Writer: ByLogin}, "sid=1"), Changed, "sid=1")
	h.want("late reply", h.apply(Update{Base: left}, "sid=0"), Late, "sid=1")
	h.want("login again", h.apply(Update{Base: h.jar.Version(), Writer: ByLogin}, "sid=1"), Changed, "sid=1")
}

func TestInsecureRepliesLeaveSecureCookiesAlone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, from, secure string // set first
		at, line           string // set by
		want               Outcome
	}{
		{"the same cookie", shop, "sid=1; Secure", "http://shop.test/", "sid=2", Overlays},
		{"its deletion", shop, "sid=1; Secure", "http://shop.test/", "sid=; Max-Age=0", Overlays},
		{"a domain cookie over a host's", "https://www.shop.test/", "sid=1; Secure", "http://www.shop.test/", "sid=2; Domain=shop.test", Overlays},
		{"a subdomain's over a domain cookie", shop, "sid=1; Secure; Domain=shop.test", "http://www.shop.test/", "sid=2", Overlays},
		{"a longer path", shop, "sid=1; Secure; Path=/login", "http://shop.test/", "sid=2; Path=/login/en", Overlays},
		{"a shorter path hides nothing", shop, "sid=1; Secure; Path=/login", "http://shop.test/", "sid=2; Path=/", Changed},
		{"a sister host", "https://www.shop.test/", "sid=1; Secure", "http://api.shop.test/", "sid=2", Changed},
		{"another name", shop, "sid=1; Secure", "http://shop.test/", "lang=en", Changed},
		{"an expired one", shop, "sid=1; Secure; Max-Age=1", "http://shop.test/", "sid=2; Path=/; Domain=shop.test", Changed},
		{"over TLS it may", shop, "sid=1; Secure", shop, "sid=2", Changed},
		{"what is not Secure may be replaced", shop, "sid=1", "http://shop.test/", "sid=2", Changed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			jar := new(Jar).reply(t, tt.from, tt.secure)
			u := Update{Base: Latest, Insecure: !setting(t, tt.at).Secure, Cookies: mustParse(t, tt.at, noon, tt.line)}
			if _, got := jar.Apply(u, at(time.Second)); got[0] != tt.want {
				t.Errorf("outcome %d, want %d", got[0], tt.want)
			}
		})
	}
}

func TestApplyRefusesWhatNoLineCouldSet(t *testing.T) {
	t.Parallel()
	good := Cookie{Name: "a", Value: "1", Domain: "shop.test", Path: "/"}
	if _, got := new(Jar).Apply(Update{Base: Latest, Writer: ByImport, Cookies: []Cookie{good}}, at(0)); got[0] != Changed {
		t.Fatalf("a good cookie: outcome %d", got[0])
	}
	for _, tt := range []struct {
		name  string
		spoil func(*Cookie)
	}{
		{"a value that ends the header", func(c *Cookie) { c.Value = "1\r\nX: y" }},
		{"a value that adds a cookie", func(c *Cookie) { c.Value = "1; b=2" }},
		{"a name that moves the value", func(c *Cookie) { c.Name = "a=b" }},
		{"no path", func(c *Cookie) { c.Path = "" }},
		{"no domain", func(c *Cookie) { c.Domain = "" }},
		{"a domain that is not canonical", func(c *Cookie) { c.Domain = "Shop.test" }},
		{"a public suffix", func(c *Cookie) { c.Domain = "co.uk" }},
		{"a prefix without its promise", func(c *Cookie) { c.Name = "__Host-a" }},
	} {
		c := good
		tt.spoil(&c)
		jar, got := new(Jar).Apply(Update{Base: Latest, Writer: ByImport, Cookies: []Cookie{c}}, at(0))
		if got[0] != Invalid || len(jar.Cookies()) > 0 {
			t.Errorf("%s: outcome %d, jar has %q", tt.name, got[0], jar.pairs())
		}
	}
}

func TestOrderKeepsCreationOnReplace(t *testing.T) {
	t.Parallel()
	jar := new(Jar).reply(t, shop, "a=1", "b=1; Path=/x", "c=1", "d=1; Path=/x/y").reply(t, shop, "a=2").reply(t, shop, "e=1; Path=/z")
	if got, want := jar.pairs(), []string{"d=1", "b=1", "e=1", "a=2", "c=1"}; !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
}

// RFC 6265bis section 5.7: a cookie whose life is over is not there any more.
func TestWhatIsOverIsNotThere(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		writer Writer // of the cookie that is over
		u      Update
		line   string
		want   Outcome
		pairs  []string
	}{
		{"a cookie that is set anew has the last place", ByReply, Update{}, "sid=2", Changed, []string{"lang=en", "sid=2"}},
		{"a logged-out reply sets the anonymous session", ByLogin, Update{LoggedOut: true}, "sid=2", Changed, []string{"lang=en", "sid=2"}},
		{"there is nothing to delete", ByLogin, Update{}, "sid=; Max-Age=0", Unchanged, []string{"sid=1", "lang=en"}},
		{"another change takes it away", ByLogin, Update{}, "lang=de", Changed, []string{"lang=de"}},
		{"nothing is left of what a worker wrote", ByWorker, Update{}, "sid=; Max-Age=0; Path=/x", Unchanged, []string{"sid=1", "lang=en"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHistory(t)
			h.apply(Update{Writer: tt.writer}, "sid=1; Max-Age=60")
			h.apply(Update{}, "lang=en")
			h.clock = at(time.Hour)
			tt.u.Base = h.jar.Version()
			h.want("change", h.apply(tt.u, tt.line), tt.want, tt.pairs...)
			if tt.want == Changed && h.jar.Login() > 0 {
				t.Error("something comes from a login that is over")
			}
		})
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()
	used := noon.Add(10 * time.Minute)
	for _, tt := range []struct {
		name  string
		lines []string
		life  Life
		want  time.Duration // from used
	}{
		{"an idle life", []string{"a=1"}, Life{Idle: time.Hour}, time.Hour},
		{"session cookies get half an hour", []string{"a=1", "b=1"}, Life{}, 30 * time.Minute},
		{"the longest cookie's own life less 5 %", []string{"a=1", "b=1; Max-Age=1000", "c=1; Max-Age=100"}, Life{}, 950 * time.Second},
		{"an absolute end", []string{"a=1"}, Life{Idle: time.Hour, Max: 30 * time.Minute}, 20 * time.Minute},
		{"an absolute end that is far off", []string{"a=1"}, Life{Idle: time.Hour, Max: 3 * time.Hour}, time.Hour},
		{"an empty jar has no start", nil, Life{Idle: time.Hour, Max: time.Minute}, time.Hour},
	} {
		jar := new(Jar).reply(t, shop, tt.lines...)
		if got := jar.End(used, tt.life).Sub(used); got.Round(time.Second) != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestCreatedSurvivesRotation(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.apply(Update{}, "anon=1")
	start := h.jar.Created()
	u := Update{Base: Latest, Writer: ByLogin, Cookies: mustParse(t, shop, noon, "anon=; Max-Age=0", "sid=1")}
	h.jar, _ = h.jar.Apply(u, at(time.Hour))
	if !h.jar.Created().Equal(start) || start.IsZero() {
		t.Errorf("created %v, want %v: the session went on", h.jar.Created(), start)
	}
	h.want("logout", h.apply(Update{Base: Latest}, "sid=; Max-Age=0"), Changed)
	if !h.jar.Created().IsZero() {
		t.Errorf("created %v of an empty jar", h.jar.Created())
	}
}

// merged is what a client that sends cookies sends through the proxy to shop.
func merged(t *testing.T, jar *Jar, cookies string) string {
	t.Helper()
	return Merge([]string{cookies}, request(t, shop), jar, nil, sharing).Header
}

func TestNextSetCookieReplacesAllThatAWorkerWrote(t *testing.T) {
	t.Parallel()
	worker := func(h *history, pairs ...string) {
		for _, line := range pairs {
			h.apply(Update{Base: Latest, Writer: ByWorker}, line)
		}
	}
	for _, tt := range []struct {
		name    string
		base    int64 // 0: the version before the worker wrote
		writer  Writer
		set     string
		outcome Outcome
		pairs   []string
	}{
		{"of another path", Latest, ByReply, "sid=site; Path=/app", Changed, []string{"sid=site", "other=w"}},
		{"of another domain", Latest, ByReply, "sid=site; Domain=shop.test", Changed, []string{"sid=site", "other=w"}},
		{"of one of its identities", Latest, ByReply, "sid=site", Changed, []string{"sid=site", "other=w"}},
		{"one that deletes", Latest, ByReply, "sid=; Path=/app; Max-Age=0", Changed, []string{"other=w"}},
		{"by an operator", Latest, ByOperator, "sid=op; Path=/app", Changed, []string{"sid=op", "other=w"}},
		{"unless it is late", 0, ByReply, "sid=site; Path=/app", Late, []string{"sid=w", "sid=w", "sid=w", "other=w"}},
		{"another worker's write replaces by itself", Latest, ByWorker, "sid=w2; Path=/app", Changed, []string{"sid=w", "sid=w2", "sid=w", "sid=w", "other=w"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHistory(t)
			h.apply(Update{}, "sid=0")
			left := h.jar.Version()
			worker(h, "sid=w", "sid=w; Path=/cart", "sid=w; Domain=shop.test", "other=w")
			if tt.base != 0 {
				left = tt.base
			}
			outcome := h.apply(Update{Base: left, Writer: tt.writer}, tt.set)
			h.want(tt.set, outcome, tt.outcome, tt.pairs...)
		})
	}
}

func TestInsecureReplyLeavesAWorkersSecureCookies(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.apply(Update{Base: Latest, Writer: ByWorker}, "sid=w; Secure; Path=/app")
	outcome := h.apply(Update{Base: Latest, Insecure: true}, "sid=site; Path=/other")
	h.want("sid=site over http", outcome, Changed, "sid=site", "sid=w")
}

// A store's versions never go back, and its clock may have: what counts for a
// cookie's end is the clock.
func TestAClockThatWentBackEndsNoCookie(t *testing.T) {
	ahead := noon.Add(time.Hour).UnixMicro()
	for _, tt := range []struct {
		name    string
		expires time.Time
		want    int
	}{
		{"a cookie of ten minutes is kept", noon.Add(10 * time.Minute), 1},
		{"one whose life is over is not", noon.Add(-time.Second), 0},
		{"the 400 days count from the clock", noon.Add(500 * 24 * time.Hour), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			jar, _ := new(Jar).Apply(Update{Base: Latest, Now: noon, Cookies: []Cookie{{Name: "a", Value: "1", Domain: "shop.test", HostOnly: true, Path: "/", Expires: tt.expires}}}, ahead)
			all := jar.Cookies()
			if len(all) != tt.want {
				t.Fatalf("%d cookies, want %d", len(all), tt.want)
			}
			for _, c := range all {
				if c.Version < ahead || c.Created != noon || c.Expires.After(noon.Add(400*24*time.Hour)) {
					t.Errorf("%+v", c)
				}
			}
		})
	}
}
