package redisstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// A shop is declared with all hosts below it.
var declared = Site{
	Hosts:  []Host{{"shop.test", false}, {"shop.test", true}},
	Policy: session.NewPolicy([]string{"*"}, []string{"mine"}, false),
}

// noon is when all begins, in microseconds.
const noon = int64(1_800_000_000_000_000)

// stored is what a proxy left in Redis after these Set-Cookie lines, one reply
// each, a second apart.
func stored(t *testing.T, site *Site, lines ...string) (*state, int64) {
	t.Helper()
	st, now := new(state), noon
	jar := none
	for _, line := range lines {
		now += 1e6
		c, err := session.ParseSetCookie(line, session.Setting{Host: "www.shop.test", Path: "/", Secure: true}, time.UnixMicro(now))
		if err != nil {
			t.Fatal(err)
		}
		jar, _ = jar.Apply(session.Update{Base: session.Latest, Cookies: []session.Cookie{c}}, now)
		st = &state{
			record: &session.Record{Jar: jar, Used: now, Ends: now + 3600e6}, token: "t", digest: "d",
			names: mirrored(st.names, mirrorOf(jar, "shop.test", site, now), jar.Version()),
		}
	}
	return st, now + 1e6
}

// mirrorIs is the state with another mirror: pairs as "a=1 b=2".
func mirrorIs(st *state, pairs string) *state {
	other := *st
	other.mirror = map[string]string{}
	for pair := range strings.SplitSeq(pairs, " ") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			other.mirror[name] = value
		}
	}
	return &other
}

func TestWritesByWorkers(t *testing.T) {
	t.Parallel()
	const login = "sid=1; Domain=shop.test; Path=/; Secure"
	exact := Site{Hosts: []Host{{"shop.test", false}, {"www.shop.test", false}}, Policy: declared.Policy}
	for _, tt := range []struct {
		name    string
		site    *Site
		set     []string // by replies, before
		mirror  string   // as a worker left it
		want    string   // the jar after: cookies in order of name and domain
		refused []string
	}{
		{"a new value is taken for all hosts", &declared, []string{login}, "sid=2", "sid=2; Domain=shop.test; Path=/; Secure", nil},
		{"it keeps the attributes of the name", &declared, []string{"sid=1; Domain=shop.test; Path=/; SameSite=Strict; HttpOnly"}, "sid=2", "sid=2; Domain=shop.test; Path=/; HttpOnly; SameSite=Strict", nil},
		{"a new name is Secure and HttpOnly", &declared, []string{login}, "sid=1 lang=de", "lang=de; Domain=shop.test; Path=/; Secure; HttpOnly|sid=1; Domain=shop.test; Path=/; Secure", nil},
		{"it replaces all of that name", &declared, []string{login, "sid=2; Path=/app", "sid=3; Path=/"}, "sid=4", "sid=4; Domain=shop.test; Path=/; Secure", nil},
		{"a name that the mirror did not show is shown from then on", &declared, []string{login, "x=1; Path=/app; SameSite=Strict"}, "sid=1 x=2", "sid=1; Domain=shop.test; Path=/; Secure|x=2; Domain=shop.test; Path=/; SameSite=Strict", nil},
		{"exact hosts get one each", &exact, nil, "sid=1", "sid=1; Host=shop.test; Path=/; Secure; HttpOnly|sid=1; Host=www.shop.test; Path=/; Secure; HttpOnly", nil},
		{"a single label has no subdomains", &Site{Hosts: []Host{{"intranet", false}, {"intranet", true}}, Policy: declared.Policy}, nil, "sid=1", "sid=1; Host=intranet; Path=/; Secure; HttpOnly", nil},
		{"an address has none", &Site{Hosts: []Host{{"192.0.2.1", false}}, Policy: declared.Policy}, nil, "sid=1", "sid=1; Host=192.0.2.1; Path=/; Secure; HttpOnly", nil},
		{"a public suffix gets no domain cookie", &Site{Hosts: []Host{{"github.io", true}}, Policy: declared.Policy}, nil, "sid=1", "sid=1; Host=github.io; Path=/; Secure; HttpOnly", nil},
		{"a __Host- name is one host's", &declared, nil, "__Host-sid=1", "__Host-sid=1; Host=shop.test; Path=/; Secure; HttpOnly", nil},
		{"the value that is there is nothing new", &declared, []string{login}, "sid=1", "sid=1; Domain=shop.test; Path=/; Secure", nil},
		{"an old value is refused", &declared, []string{login, "sid=2; Domain=shop.test; Path=/; Secure"}, "sid=1", "sid=2; Domain=shop.test; Path=/; Secure", []string{refusedOld}},
		{"the value of a deleted cookie is refused", &declared, []string{login, "x=1; Domain=shop.test; Path=/", "x=; Domain=shop.test; Path=/; Max-Age=0"}, "sid=1 x=1", "sid=1; Domain=shop.test; Path=/; Secure", []string{refusedOld}},
		{"the ninth value back is forgotten", &declared, manyValues(10), "v=1", "v=1; Domain=shop.test; Path=/", nil},
		{"the eighth is not", &declared, manyValues(9), "v=2", "v=9; Domain=shop.test; Path=/", []string{refusedOld}},
		{"a private name is refused", &declared, []string{login}, "sid=1 csrftoken=x mine=y", "sid=1; Domain=shop.test; Path=/; Secure", []string{refusedPrivate, refusedPrivate}},
		{"what no line could set is refused", &declared, []string{login}, "sid=1 a=x;y", "sid=1; Domain=shop.test; Path=/; Secure", []string{refusedInvalid}},
		{"so is what is no UTF-8", &declared, []string{login}, "sid=1 a=\xff", "sid=1; Domain=shop.test; Path=/; Secure", []string{refusedInvalid}},
		{"so is a value without a name", &declared, []string{login}, "sid=1 =x", "sid=1; Domain=shop.test; Path=/; Secure", []string{refusedInvalid}},
		{"a name that a worker deletes is deleted, wherever it was set", &declared, []string{login, "x=1; Domain=shop.test; Path=/", "x=2; Path=/app"}, "sid=1", "sid=1; Domain=shop.test; Path=/; Secure", nil},
		{"what the mirror never showed is not missed", &declared, []string{login, "x=1; Path=/app"}, "sid=1", "sid=1; Domain=shop.test; Path=/; Secure|x=1; Host=www.shop.test; Path=/app", nil},
		{"a hash that is gone ends the session", &declared, []string{login, "x=1; Path=/app"}, "", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			st, now := stored(t, tt.site, tt.set...)
			st = mirrorIs(st, tt.mirror)
			s := &Store{clock: newClock(), sites: func(string) (Site, bool) { return *tt.site, true }, prefix: "session:"}
			s.clock.offset.Store(now)
			record, refused := s.adopt(session.Key{Site: "shop.test", ID: session.DefaultID}, st)
			if record == nil {
				record = st.record
			}
			if got := describe(record.Jar); got != tt.want {
				t.Errorf("the jar has\n%s, want\n%s", got, tt.want)
			}
			if !slices.Equal(refused, tt.refused) {
				t.Errorf("refused %q, want %q", refused, tt.refused)
			}
			if !record.Live(now) {
				t.Error("the session is over")
			}
		})
	}
}

// manyValues sets v to 1, 2 and so on.
func manyValues(count int) []string {
	var lines []string
	for i := range count {
		lines = append(lines, fmt.Sprintf("v=%d; Domain=shop.test; Path=/", i+1))
	}
	return lines
}

func describe(jar *session.Jar) string {
	var all []string
	for _, c := range jar.Cookies() {
		s := c.Name + "=" + c.Value + "; Domain=" + c.Domain + "; Path=" + c.Path
		if c.HostOnly {
			s = c.Name + "=" + c.Value + "; Host=" + c.Domain + "; Path=" + c.Path
		}
		if c.Secure {
			s += "; Secure"
		}
		if c.HTTPOnly {
			s += "; HttpOnly"
		}
		if c.SameSite == session.SameSiteStrict {
			s += "; SameSite=Strict"
		}
		all = append(all, s)
	}
	slices.Sort(all)
	return strings.Join(all, "|")
}

func TestAWorkersCookieLivesAsLongAsTheOneItReplaces(t *testing.T) {
	t.Parallel()
	st, now := stored(t, &declared, "sid=1; Domain=shop.test; Path=/; Max-Age=600")
	later := now + 300e6
	w := reconcile(mirrorIs(st, "sid=2"), st.record.Jar, "shop.test", &declared, later)
	if want := time.UnixMicro(later).Add(600 * time.Second); len(w.update.Cookies) != 1 || !w.update.Cookies[0].Expires.Equal(want) {
		t.Errorf("sets %+v, want one that expires at %v", w.update.Cookies, want)
	}
}

func TestRevokedValuesOfWorkersAreRefused(t *testing.T) {
	t.Parallel()
	st, now := stored(t, &declared, "sid=1; Domain=shop.test; Path=/")
	revoked := &state{record: &session.Record{Jar: st.record.Jar.Revoke(now), Used: now, Ends: now}, token: "t", names: mirrored(st.names, nil, now)}
	s := &Store{clock: newClock(), sites: func(string) (Site, bool) { return declared, true }}
	s.clock.offset.Store(now + 1e6)
	record, refused := s.adopt(shop, mirrorIs(revoked, "sid=1 sid2=x"))
	if want := []string{refusedOld}; !slices.Equal(refused, want) {
		t.Errorf("the old value: refused %q, want %q", refused, want)
	}
	if got := describe(record.Jar); got != "sid2=x; Domain=shop.test; Path=/; Secure; HttpOnly" {
		t.Errorf("the jar has %s", got)
	}
	if _, refused = s.adopt(shop, mirrorIs(revoked, "sid=new")); !slices.Equal(refused, []string{refusedRevoked}) {
		t.Errorf("a new value of a revoked name: refused %q, want %q", refused, refusedRevoked)
	}
}

func TestASessionThatIsOverStartsAnewByAWorker(t *testing.T) {
	t.Parallel()
	st, _ := stored(t, &declared, "sid=1; Domain=shop.test; Path=/", "sid=2; Domain=shop.test; Path=/", "x=1; Path=/app")
	s := &Store{clock: newClock(), sites: func(string) (Site, bool) { return declared, true }}
	now := st.record.Ends + 1e6
	s.clock.offset.Store(now)
	record, refused := s.adopt(shop, mirrorIs(st, "sid=2"))
	if record == nil || describe(record.Jar) != "sid=2; Domain=shop.test; Path=/; Secure; HttpOnly" || refused != nil {
		t.Errorf("its last value: %+v, refused %q", record, refused)
	}
	if record, refused = s.adopt(shop, mirrorIs(st, "sid=1")); len(refused) != 1 || len(record.Jar.Cookies()) != 0 {
		t.Errorf("an older value: %+v, refused %q", record, refused)
	}
}

func TestLivesThatWorkersSet(t *testing.T) {
	t.Parallel()
	st, now := stored(t, &declared, "sid=1; Domain=shop.test; Path=/")
	ends := st.record.Ends
	for _, tt := range []struct {
		name  string
		to    int64
		max   time.Duration
		want  int64
		mends bool
	}{
		{"the same", ends, 0, ends, false},
		{"rounded", ends + 900_000, 0, ends, false},
		{"longer", ends + 3600e6, 0, ends + 3600e6, true},
		{"longer than the site allows", ends + 3600e6, 90 * time.Minute, noon + 1e6 + 5400e6, true},
		{"shorter", now + 60e6, 0, ends, true},
		{"without end", 0, 0, ends, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			other := *st
			other.mirrorEnds = tt.to
			site := declared
			site.Life.Max = tt.max
			s := &Store{clock: newClock(), sites: func(string) (Site, bool) { return site, true }}
			s.clock.offset.Store(now)
			record, _ := s.adopt(shop, &other)
			if (record != nil) != tt.mends {
				t.Fatalf("a record to write: %+v, want one: %v", record, tt.mends)
			}
			if record != nil && record.Ends != tt.want {
				t.Errorf("ends %v after now, want %v", time.Duration(record.Ends-now)*time.Microsecond, time.Duration(tt.want-now)*time.Microsecond)
			}
		})
	}
}

func TestMirrorShowsWhatARequestForTheFirstPageCarries(t *testing.T) {
	t.Parallel()
	jar := none
	for i, line := range []string{
		"sid=host; Path=/", "sid=domain; Domain=shop.test; Path=/", "deep=1; Path=/app", "csrftoken=1; Domain=shop.test; Path=/",
		"nameless; Path=/", "raw=\xff; Domain=shop.test; Path=/", "q=\"a b\"; Domain=shop.test; Path=/", "old=1; Domain=shop.test; Path=/; Max-Age=1",
	} {
		c, err := session.ParseSetCookie(line, session.Setting{Host: "www.shop.test", Path: "/", Secure: true}, time.UnixMicro(noon))
		if err != nil {
			t.Fatal(err)
		}
		jar, _ = jar.Apply(session.Update{Base: session.Latest, Cookies: []session.Cookie{c}}, noon+int64(i))
	}
	for _, tt := range []struct {
		key   string
		hosts []Host
		want  map[string]string
	}{
		{"shop.test", declared.Hosts, map[string]string{"sid": "domain", "q": `"a b"`}},
		{"www.shop.test:8443", declared.Hosts, map[string]string{"sid": "host", "q": `"a b"`}},
		{"shop", []Host{{"other.shop.test", true}, {"www.shop.test", false}}, map[string]string{"sid": "host", "q": `"a b"`}},
		{"shop", []Host{{"shop.test", true}}, map[string]string{"sid": "domain", "q": `"a b"`}},
	} {
		site := Site{Hosts: tt.hosts, Policy: declared.Policy}
		if got := mirrorOf(jar, tt.key, &site, noon+10e6); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("mirror of %q is %q, want %q", tt.key, got, tt.want)
		}
	}
}
