// Package storetest is the contract of [session.Store] as one test suite, which
// every store passes. It knows the contract's words and no store's ways: lives
// are real and short, and it waits for conditions.
package storetest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// Run tests stores that open returns. Each is empty, used by one subtest alone,
// and closed by whoever opened it once that subtest is over; the suite may have
// closed it already. Subtests run in parallel.
func Run(t *testing.T, open func(t *testing.T) session.Store) {
	for _, part := range [][]test{applying, racing, living, ending, private, listing, handling} {
		for _, tt := range part {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				tt.run(fixture{t, open(t)})
			})
		}
	}
}

type test struct {
	name string
	run  func(f fixture)
}

// fixture is a store under test. Its methods fail the test on any error that
// the contract does not allow.
type fixture struct {
	*testing.T
	store session.Store
}

var (
	shop   = session.Key{Site: "shop.test", ID: session.DefaultID}
	hourly = session.Life{Idle: time.Hour}
)

// leave is the version that a request leaves with now.
func (f fixture) leave(key session.Key) int64 {
	f.Helper()
	if jar := f.load(key); jar != nil {
		return jar.Version()
	}
	return 0
}

// load returns the jar under key, nil where it is not found.
func (f fixture) load(key session.Key) *session.Jar {
	f.Helper()
	jar, err := f.store.Load(f.Context(), key)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return nil
	case err != nil:
		f.Fatalf("Load(%v): %v", key, err)
	case jar == nil:
		f.Fatalf("Load(%v): no jar and no error", key)
	}
	return jar
}

// apply makes one update.
func (f fixture) apply(key session.Key, u session.Update, life session.Life) (*session.Jar, []session.Outcome) {
	f.Helper()
	jar, outcomes, err := f.store.Apply(f.Context(), key, u, life)
	if err != nil {
		f.Fatalf("Apply(%v): %v", key, err)
	}
	if len(outcomes) != len(u.Cookies) {
		f.Fatalf("Apply(%v): %d outcomes for %d cookies", key, len(outcomes), len(u.Cookies))
	}
	return jar, outcomes
}

// set has a reply, late for nothing, set cookies for an hour.
func (f fixture) set(key session.Key, cookies ...session.Cookie) *session.Jar {
	f.Helper()
	jar, _ := f.apply(key, reply(session.Latest, cookies...), hourly)
	return jar
}

// wantOutcomes applies u and compares.
func (f fixture) wantOutcomes(key session.Key, u session.Update, want ...session.Outcome) {
	f.Helper()
	if _, got := f.apply(key, u, hourly); !slices.Equal(got, want) {
		f.Errorf("outcomes %v, want %v", got, want)
	}
}

// wantJar compares what is under key with names and values in order of name:
// "a=1 b=2". An empty jar is "", and the lack of one is absent.
func (f fixture) wantJar(key session.Key, want string) {
	f.Helper()
	if got := show(f.load(key)); got != want {
		f.Errorf("jar of %v is %q, want %q", key, got, want)
	}
}

// wantForgotten wants no cookie under key; whether an empty jar is left there
// is up to the store, since requests leave with a version either way.
func (f fixture) wantForgotten(key session.Key) {
	f.Helper()
	if got := show(f.load(key)); got != "" && got != absent {
		f.Errorf("jar of %v is %q, want no cookies", key, got)
	}
}

const absent = "(absent)"

func show(jar *session.Jar) string {
	if jar == nil {
		return absent
	}
	var pairs []string
	for _, c := range jar.Cookies() {
		pairs = append(pairs, c.Name+"="+c.Value)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, " ")
}

// list returns the list of a site.
func (f fixture) list(site string) []session.Info {
	f.Helper()
	list, err := f.store.List(f.Context(), site)
	if err != nil {
		f.Fatalf("List(%q): %v", site, err)
	}
	return list
}

// info returns the list's line of one session, which has to be there.
func (f fixture) info(key session.Key) session.Info {
	f.Helper()
	list := f.list(key.Site)
	i := slices.IndexFunc(list, func(info session.Info) bool { return info.Key == key })
	if i < 0 {
		f.Fatalf("List(%q) has no %v: %v", key.Site, key, list)
	}
	return list[i]
}

func (f fixture) renew(key session.Key, life session.Life) {
	f.Helper()
	if err := f.store.Renew(f.Context(), key, life); err != nil {
		f.Fatalf("Renew(%v): %v", key, err)
	}
}

func (f fixture) revoke(key session.Key) {
	f.Helper()
	if err := f.store.Revoke(f.Context(), key); err != nil {
		f.Fatalf("Revoke(%v): %v", key, err)
	}
}

func (f fixture) clear(key session.Key) {
	f.Helper()
	if err := f.store.Clear(f.Context(), key); err != nil {
		f.Fatalf("Clear(%v): %v", key, err)
	}
}

// waitUntil polls until ok says so, for 5 s at most.
func (f fixture) waitUntil(what string, ok func() bool) {
	f.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatalf("not within 5 s: %s", what)
		}
	}
}

// reply is what a response sets whose request left with version base.
func reply(base int64, cookies ...session.Cookie) session.Update {
	return session.Update{Base: base, Writer: session.ByReply, Cookies: cookies}
}

// by is what a writer that is never late sets.
func by(w session.Writer, cookies ...session.Cookie) session.Update {
	return session.Update{Base: session.Latest, Writer: w, Cookies: cookies}
}

// timid is reply of a redirect or 4xx.
func timid(base int64, cookies ...session.Cookie) session.Update {
	u := reply(base, cookies...)
	u.Timid = true
	return u
}

// cookie is a session cookie of the shop.
func cookie(name, value string) session.Cookie {
	now := time.Now()
	return session.Cookie{
		Name: name, Value: value,
		Domain: "shop.test", HostOnly: true, Path: "/",
		Secure: true, HTTPOnly: true,
		Created: now, Used: now,
	}
}

// gone deletes the cookie.
func gone(name string) session.Cookie {
	c := cookie(name, "")
	c.Expires = time.Unix(1, 0)
	return c
}

// worker is the key of a private jar in the shop's session.
func worker(name string) session.Key {
	key := shop
	key.Worker = name
	return key
}
