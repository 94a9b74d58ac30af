package trace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/session"
)

// value is in each cookie's value, and in each query.
const value = "THEVALUE"

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// jars is a store of one session.
type jars struct{ jar *session.Jar }

func (j jars) Load(context.Context, session.Key) (*session.Jar, error) {
	if j.jar == nil {
		return nil, session.ErrNotFound
	}
	return j.jar, nil
}

// set is the jar after a reply that came so long after noon.
func set(t testing.TB, j *session.Jar, after time.Duration, lines ...string) *session.Jar {
	t.Helper()
	at := noon.Add(after)
	u := session.Update{Base: session.Latest}
	for _, line := range lines {
		c, err := session.ParseSetCookie(line, session.Setting{Host: "shop.test", Path: "/", Secure: true}, at)
		if err != nil {
			t.Fatal(err)
		}
		u.Cookies = append(u.Cookies, c)
	}
	j, _ = j.Apply(u, at.UnixMicro())
	return j
}

var policy = session.NewPolicy([]string{"*"}, nil, false)

// record is an own request of a session that left a minute after noon.
func record(id string, jar *session.Jar) *Record {
	left := noon.Add(time.Minute)
	return &Record{
		ID: id, Start: left, Client: "crawler", Worker: "w1", Site: "shop", Session: "default", Selected: ByDefault,
		Mode: "h1", Method: "GET", Host: "shop.test", Port: "443", Target: "/cart?q=" + value, Status: 200, Outcome: OK,
		Request: session.Request{Host: "shop.test", Path: "/cart", Secure: true, Now: left}, Jar: jar, Policy: policy,
		Spent: Spent{Total: 100 * time.Millisecond, Upstream: 90 * time.Millisecond},
	}
}

func ids(all []Exchange) string {
	var list []string
	for _, e := range all {
		list = append(list, e.ID)
	}
	return strings.Join(list, " ")
}

func TestTheLastAreKept(t *testing.T) {
	t.Parallel()
	l := New(jars{})
	for i := range 2*Kept + 7 {
		l.Add(record(fmt.Sprint(i), nil))
	}
	all := l.Last(t.Context(), Filter{}, 5000)
	if len(all) != Kept || all[0].ID != fmt.Sprint(2*Kept+6) || all[Kept-1].ID != fmt.Sprint(Kept+7) || all[0].Number != 2*Kept+7 {
		t.Errorf("%d exchanges, from %s to %s", len(all), all[len(all)-1].ID, all[0].ID)
	}
	if _, ok := l.Find(t.Context(), fmt.Sprint(Kept+6)); ok {
		t.Error("one more is kept")
	}
}

// Of a tunnel that has ended the list has the end, and a reader who follows has both.
func TestATunnelOpensAndEnds(t *testing.T) {
	t.Parallel()
	l := New(jars{})
	f := l.Follow(Filter{}, 0)
	defer f.Stop()
	tunnel := func(id string, outcome Outcome) {
		r := record(id, nil)
		r.Outcome, r.Opened = outcome, outcome != Open
		l.Add(r)
	}
	tunnel("a", Open)
	tunnel("b", Open)
	tunnel("a", OK)
	all := l.Last(t.Context(), Filter{}, 10)
	if ids(all) != "a b" || all[0].Outcome != OK || all[1].Outcome != Open {
		t.Errorf("%+v", all)
	}
	if e, _ := l.Find(t.Context(), "a"); e.Outcome != OK {
		t.Errorf("a is %s", e.Outcome)
	}
	if fresh, lost := f.Next(t.Context()); ids(fresh) != "a b a" || lost != 0 {
		t.Errorf("%s, %d lost", ids(fresh), lost)
	}
}

func TestASlowFollowerIsToldWhatItLost(t *testing.T) {
	t.Parallel()
	l := New(jars{})
	f := l.Follow(Filter{}, 0)
	defer f.Stop()
	for i := range Kept + 250 {
		l.Add(record(fmt.Sprint(i), nil))
	}
	var got []Exchange
	lostAll := uint64(0)
	for range f.Wake() {
		fresh, lost := f.Next(t.Context())
		got, lostAll = append(got, fresh...), lostAll+lost
		if len(got) >= Kept {
			break
		}
	}
	if lostAll != 250 || len(got) != Kept || got[0].ID != "250" || got[Kept-1].ID != fmt.Sprint(Kept+249) {
		t.Errorf("%d lost, %d seen", lostAll, len(got))
	}
}

func TestFollowersAreBounded(t *testing.T) {
	t.Parallel()
	l := New(jars{})
	var all []*Follower
	for range maxFollowers {
		all = append(all, l.Follow(Filter{}, 0))
	}
	if l.Follow(Filter{}, 0) != nil {
		t.Error("one more follows")
	}
	all[0].Stop()
	if l.Resume(Filter{}, 0) == nil {
		t.Error("none may follow after one has left")
	}
}

// A site that changes a large session with each reply may not fill the memory.
func TestWhatTheRecordsHoldIsBounded(t *testing.T) {
	t.Parallel()
	l := New(jars{})
	big := strings.Repeat("x", 4000)
	jar := new(session.Jar)
	for i := range 150 {
		jar = set(t, jar, time.Duration(i), fmt.Sprintf("c%d=%s; Path=/", i, big))
	}
	for i := range 200 {
		jar = set(t, jar, time.Duration(200+i), fmt.Sprintf("c0=%d%s; Path=/", i, big[:3000]))
		l.Add(record(fmt.Sprint(i), jar))
	}
	held, with := 0, 0
	for i := range l.ring {
		held += l.ring[i].Jar.Size()
		if l.ring[i].Jar != nil {
			with++
		}
	}
	if held > maxHeld || held != l.held || with == 0 || with == 200 {
		t.Errorf("%d records hold %d bytes, counted as %d; at most %d", with, held, l.held, maxHeld)
	}
	last, _ := l.Find(t.Context(), "199")
	first, _ := l.Find(t.Context(), "0")
	if len(last.Cookies) != 150 || len(first.Cookies) != 0 || !strings.Contains(strings.Join(first.Why, " "), "no longer kept") {
		t.Errorf("the last tells of %d cookies, the first of %d: %q", len(last.Cookies), len(first.Cookies), first.Why)
	}
	for i := range 3 * Kept { // the records that hold leave
		l.Add(record(fmt.Sprint(i), nil))
	}
	if l.held != 0 {
		t.Errorf("nothing is held, and counted are %d bytes", l.held)
	}
}

// Many write and follow at once.
func TestTheLogIsSharedByMany(t *testing.T) {
	t.Parallel()
	jar := set(t, new(session.Jar), 0, "sid="+value)
	l := New(jars{jar})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 500 {
				l.Add(record(fmt.Sprint(i), jar))
			}
		})
		wg.Go(func() {
			f := l.Follow(Filter{Client: "crawler"}, 5)
			defer f.Stop()
			for seen := 0; seen < 200; {
				<-f.Wake()
				fresh, lost := f.Next(t.Context())
				seen += len(fresh) + int(lost)
			}
		})
	}
	wg.Wait()
}

// Whatever is told, no value and no query is in it.
func TestNothingSecretIsTold(t *testing.T) {
	t.Parallel()
	jar := set(t, new(session.Jar), 0, "sid="+value+"; Path=/", "admin="+value+"; Path=/admin")
	l := New(jars{set(t, jar, time.Second, "sid="+value+"2; Path=/")})
	for i, target := range []string{"/cart?q=" + value, "http://user:" + value + "@shop.test/cart?q=" + value, "http://shop.test?" + value, "*", "shop.test:443"} {
		r := record(fmt.Sprint(i), jar)
		r.Target, r.Cookie, r.Err = target, []string{"theme=" + value + "; sid=" + value + "0", value}, errors.New("it broke")
		l.Add(r)
	}
	want := []string{"", "*", "/", "/cart", "/cart"}
	for i, e := range l.Last(t.Context(), Filter{}, 10) {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), value) || e.Path != want[i] {
			t.Errorf("path %q, want %q: %s", e.Path, want[i], b)
		}
	}
}

// Readers of the JSON go through the lists without looking whether they are there.
func TestAListIsNeverNull(t *testing.T) {
	t.Parallel()
	l := New(jars{nil})
	l.Add(&Record{ID: "1"})
	for _, e := range l.Last(t.Context(), Filter{}, 10) {
		if b, err := json.Marshal(e); err != nil || strings.Contains(string(b), "null") {
			t.Errorf("%s, %v", b, err)
		}
	}
}

func TestWhatIsNotAsExpectedIsSaid(t *testing.T) {
	t.Parallel()
	jar := set(t, new(session.Jar), 0, "sid="+value+"; Path=/")
	later := set(t, jar, time.Minute+50*time.Millisecond, "sid="+value+"2; Path=/")
	earlier := set(t, jar, 30*time.Second, "sid="+value+"2; Path=/")
	for _, tt := range []struct {
		name   string
		now    *session.Jar
		change func(*Record)
		want   string
	}{
		{"nothing", jar, func(*Record) {}, ""},
		{"an undeclared tunnel", jar, func(r *Record) { r.Mode, r.Facts, r.Jar = Tunnel, Undeclared, nil }, "No site declares shop.test: the tunnel passed as it is, and nothing in it was looked at. To have it intercepted, name the host in a site's hosts."},
		{"an undeclared request", jar, func(r *Record) { r.Mode, r.Facts, r.Jar = "plain", Undeclared, nil }, "No site declares shop.test: its requests pass as they are."},
		{"a tunnel of another protocol", jar, func(r *Record) { r.Mode, r.Facts, r.Jar = Tunnel, Foreign, nil }, "The site shop declares shop.test, but the client spoke neither TLS nor HTTP, or let the server speak first: the tunnel passed as it is."},
		{"a client without the CA", jar, func(r *Record) { r.Mode, r.Facts, r.Jar, r.Outcome = Tunnel, Distrust, nil, ClientTLS }, "The client broke off the TLS handshake with the proxy, as one does that does not trust its CA: sessionproxy ca says how it gets that."},
		{"a connection ahead", jar, func(r *Record) { r.Mode, r.Facts, r.Jar, r.Outcome = Tunnel, Silent, nil, ClientTLS }, "The client opened a tunnel and said nothing in it, as browsers do that connect ahead."},
		{"no session", nil, func(r *Record) { r.Session, r.Facts, r.Jar = "", NoSession, nil }, "The client selected the session none: no cookie was injected, and none is captured."},
		{"an empty session", nil, func(r *Record) { r.Jar = new(session.Jar) }, "The session default of shop held no cookies."},
		{"a revoked session", nil, func(r *Record) { r.Jar = jar.Revoke(noon.UnixMicro()) }, "The session was revoked at 2026-12-01T12:00:00.000Z, and nobody has logged in since."},
		{"a store that is away", nil, func(r *Record) { r.Jar, r.Facts = new(session.Jar), StoreFailed }, "The session store did not answer in time: the request left with the client's own cookies."},
		{"a site without injection", jar, func(r *Record) { r.Facts = NoInjection }, "cookies.inject is false: the site's requests get no cookies of its sessions."},
		{"a logout", jar, func(r *Record) { r.Facts, r.Request.Logout = Logout, true }, "The request is on protect_logout: it left without the session's cookies, and what its reply sets is this client's own."},
		{"a foreign page", jar, func(r *Record) { r.Request.Whose = session.Cross }, "A page of another site made the request, or one that asks without credentials: it got no cookie that its browser did not send."},
		{"a foreign link", jar, func(r *Record) { r.Request.Whose = session.CrossNavigation }, "A page of another site led here: cookies with SameSite=Strict stay behind."},
		{"logged out", jar, func(r *Record) { r.Judged = login.Judgment{Verdict: login.Out, Rule: "logged_out.status"} }, "The reply shows that the session is logged out (logged_out.status)."},
		{"a failed login", jar, func(r *Record) {
			r.Facts, r.Judged = LoginRequest, login.Judgment{Verdict: login.Out, Rule: "logged_out.body"}
		}, "A login request, and it failed (logged_out.body)."},
		{"another's login", jar, func(r *Record) { r.Facts = LoginRequest | Shared }, "It was answered with the login of another client, which had sent the same."},
		{"sent again", jar, func(r *Record) { r.Facts = Renewed }, "The first reply showed a logged-out session, but the session had moved on: it was sent again with the new cookies."},
		{"another upstream", jar, func(r *Record) { r.Moves = 1 }, "An upstream failed, and the request was sent again by another."},
		{"an old value, on the way", later, func(*Record) {}, "sid went with a value that has become old on the way: it was replaced at 2026-12-01T12:01:00.050Z."},
		{"an old value, that its own reply replaced", later, func(r *Record) { r.ReplyCookies = []ReplyCookie{{Name: "sid", Captured: true}} }, ""},
		{"an old value, of which nobody told this proxy", earlier, func(*Record) {}, "sid went with an old value: it had been replaced at 2026-12-01T12:00:30.000Z, and this proxy had not heard of that yet."},
		{"a value that was replaced long after", later, func(r *Record) { r.Spent.Total = time.Millisecond }, ""},
		{"a slow site", jar, func(r *Record) { r.Spent = Spent{Total: 2 * time.Second, Upstream: 1900 * time.Millisecond} }, "1.9 s of 2.0 s went by until the head of the site's answer came."},
		{"a long body", jar, func(r *Record) { r.Spent = Spent{Total: 9 * time.Second, Body: 8 * time.Second} }, "8.0 s of 9.0 s went by while its body was on the way to the client."},
		{"a long login", jar, func(r *Record) { r.Spent = Spent{Total: 9 * time.Second, Login: 8 * time.Second} }, "8.0 s of 9.0 s went by in waiting for a login."},
		{"a long solve", jar, func(r *Record) { r.Spent = Spent{Total: 9 * time.Second, Captcha: 8 * time.Second} }, "8.0 s of 9.0 s went by in waiting for a captcha token."},
		{"a long wait for an exit", jar, func(r *Record) { r.Spent = Spent{Total: 9 * time.Second, Lease: 8 * time.Second} }, "8.0 s of 9.0 s went by in waiting for an upstream."},
		{"a slow store", jar, func(r *Record) { r.Spent = Spent{Total: 9 * time.Second, Store: 8 * time.Second} }, "8.0 s of 9.0 s went by in waiting for the session store."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := record("a", jar)
			tt.change(r)
			l := New(jars{tt.now})
			l.Add(r)
			e, _ := l.Find(t.Context(), "a")
			if got := strings.Join(e.Why, "\n"); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// BenchmarkAdd is what an exchange pays for a trace that nobody reads.
func BenchmarkAdd(b *testing.B) {
	jar := set(b, new(session.Jar), 0, "sid="+value, "a=1", "b=2", "c=3", "d=4")
	l := New(jars{})
	r := record("a", jar)
	r.Cookie = []string{"theme=dark"}
	b.ReportAllocs()
	for b.Loop() {
		fresh := *r
		l.Add(&fresh)
	}
}
