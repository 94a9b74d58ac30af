package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/redisstore/seal"
)

const mirrorKey = "session:cookies:shop.test"

// set has a reply set cookies for an hour.
func set(t testing.TB, s *Store, key session.Key, pairs ...string) *session.Jar {
	t.Helper()
	u := session.Update{Base: session.Latest}
	for _, pair := range pairs {
		u.Cookies = append(u.Cookies, cookie(pair))
	}
	jar, _, err := s.Apply(t.Context(), key, u, hourly)
	if err != nil {
		t.Fatal(err)
	}
	return jar
}

// cookie is name=value of the shop.
func cookie(pair string) session.Cookie {
	name, value, _ := strings.Cut(pair, "=")
	return session.Cookie{Name: name, Value: value, Domain: "shop.test", HostOnly: true, Path: "/", Secure: true, HTTPOnly: true}
}

// pairs are the cookies of a jar in order of name, as "a=1 b=2".
func pairs(jar *session.Jar) string {
	var all []string
	for _, c := range jar.Cookies() {
		all = append(all, c.Name+"="+c.Value)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// load is pairs of what a store shows; "absent", or "" for an empty jar.
func load(t testing.TB, s *Store, key session.Key) string {
	t.Helper()
	jar, err := s.Load(t.Context(), key)
	if errors.Is(err, session.ErrNotFound) {
		return "absent"
	}
	if err != nil {
		t.Fatal(err)
	}
	return pairs(jar)
}

func want(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %q, want %q", what, got, want)
	}
}

// mirror is the public hash, as pairs.
func mirror(t testing.TB, r *redistest.Server) string {
	t.Helper()
	hash, err := r.Client().HGetAll(t.Context(), mirrorKey).Result()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(hash)) {
		all = append(all, name+"="+hash[name])
	}
	return strings.Join(all, " ")
}

func ttl(t testing.TB, r *redistest.Server, key string) time.Duration {
	t.Helper()
	left, err := r.Client().PTTL(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func about(d, want time.Duration) bool { return (d - want).Abs() < 10*time.Second }

func TestWorkersAndProxiesShareASession(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		run  func(t *testing.T, r *redistest.Server, s *Store, refused func() string)
	}{
		{"a worker reads what a proxy captured, and for how long", func(t *testing.T, r *redistest.Server, s *Store, _ func() string) {
			set(t, s, shop, "sid=1", "lang=en", "csrftoken=x")
			want(t, "the hash", mirror(t, r), "lang=en sid=1")
			if left := ttl(t, r, mirrorKey); !about(left, time.Hour) {
				t.Errorf("it lives %v, want 1h", left)
			}
			for _, key := range []string{"jar", "state"} {
				if left := ttl(t, r, "{"+mirrorKey+"}:"+key); !about(left, 25*time.Hour) {
					t.Errorf("its %s lives %v, want 25h", key, left)
				}
			}
		}},
		{"a proxy takes what a worker writes", func(t *testing.T, r *redistest.Server, s *Store, _ func() string) {
			set(t, s, shop, "sid=1")
			r.Do("HSET", mirrorKey, "sid", "2", "new", "3")
			want(t, "the jar", load(t, s, shop), "new=3 sid=2")
			want(t, "the hash", mirror(t, r), "new=3 sid=2")
		}},
		{"a worker makes a session", func(t *testing.T, r *redistest.Server, s *Store, _ func() string) {
			r.Do("HSET", mirrorKey, "sid", "1", "csrftoken", "x")
			want(t, "the jar", load(t, s, shop), "sid=1")
			r.Do("EXPIRE", mirrorKey, "1800")
			want(t, "the jar", load(t, s, shop), "sid=1")
			want(t, "the hash", mirror(t, r), "sid=1")
			if left := ttl(t, r, mirrorKey); !about(left, 30*time.Minute) {
				t.Errorf("it lives %v, want 30m", left)
			}
		}},
		{"an old value is overwritten", func(t *testing.T, r *redistest.Server, s *Store, refused func() string) {
			set(t, s, shop, "sid=1", "gone=1")
			set(t, s, shop, "sid=2")
			u := session.Update{Base: session.Latest, Cookies: []session.Cookie{cookie("gone=")}}
			u.Cookies[0].Expires = past
			if _, _, err := s.Apply(t.Context(), shop, u, hourly); err != nil {
				t.Fatal(err)
			}
			r.Do("HSET", mirrorKey, "sid", "1", "gone", "1", "csrftoken", "x")
			want(t, "the jar", load(t, s, shop), "sid=2")
			want(t, "the hash", mirror(t, r), "sid=2")
			want(t, "what was refused", refused(), "worker_old worker_old worker_private")
		}},
		{"an old value is refused in the same breath as a capture", func(t *testing.T, r *redistest.Server, s *Store, _ func() string) {
			set(t, s, shop, "sid=1")
			set(t, s, shop, "sid=2")
			r.Do("HSET", mirrorKey, "sid", "1", "new", "1")
			want(t, "the jar", pairs(set(t, s, shop, "lang=en")), "lang=en new=1 sid=2")
			want(t, "the hash", mirror(t, r), "lang=en new=1 sid=2")
		}},
		{"a value revoked is refused", func(t *testing.T, r *redistest.Server, s *Store, refused func() string) {
			set(t, s, shop, "sid=1")
			if err := s.Revoke(t.Context(), shop); err != nil {
				t.Fatal(err)
			}
			want(t, "the hash", mirror(t, r), "")
			r.Do("HSET", mirrorKey, "sid", "1")
			want(t, "the jar", load(t, s, shop), "")
			r.Do("HSET", mirrorKey, "sid", "2")
			want(t, "the jar", load(t, s, shop), "")
			want(t, "the hash", mirror(t, r), "")
			want(t, "what was refused", refused(), "worker_old worker_revoked")
		}},
		{"a worker deletes a name", func(t *testing.T, r *redistest.Server, s *Store, _ func() string) {
			set(t, s, shop, "sid=1", "lang=en")
			r.Do("HDEL", mirrorKey, "sid")
			want(t, "the jar", load(t, s, shop), "lang=en")
		}},
		{"a worker deletes the session", func(t *testing.T, r *redistest.Server, s *Store, _ func() string) {
			left := set(t, s, shop, "sid=1").Version()
			r.Do("DEL", mirrorKey)
			want(t, "the jar", load(t, s, shop), "")
			jar, outcomes, err := s.Apply(t.Context(), shop, session.Update{Base: left, Timid: true, Cookies: []session.Cookie{cookie("sid=1")}}, hourly)
			if err != nil || outcomes[0] != session.Late {
				t.Errorf("a late reply after it: %v %v %v, want it late", jar, outcomes, err)
			}
		}},
		{"a worker deletes and writes anew", func(t *testing.T, r *redistest.Server, s *Store, _ func() string) {
			set(t, s, shop, "sid=1", "lang=en")
			r.Do("DEL", mirrorKey)
			r.Do("HSET", mirrorKey, "sid", "2")
			want(t, "the jar", load(t, s, shop), "sid=2")
			if left := ttl(t, r, mirrorKey); !about(left, time.Hour) {
				t.Errorf("it lives %v, want 1h", left)
			}
		}},
		{"EXPIRE makes no life shorter", func(t *testing.T, r *redistest.Server, s *Store, _ func() string) {
			set(t, s, shop, "sid=1")
			for _, command := range [][]any{{"EXPIRE", mirrorKey, "60"}, {"PERSIST", mirrorKey}} {
				r.Do(command...)
				want(t, "the jar", load(t, s, shop), "sid=1")
				if left := ttl(t, r, mirrorKey); !about(left, time.Hour) {
					t.Errorf("after %s it lives %v, want 1h", command[0], left)
				}
			}
		}},
		{"EXPIRE makes a life longer", func(t *testing.T, r *redistest.Server, s *Store, _ func() string) {
			set(t, s, shop, "sid=1")
			r.Do("EXPIRE", mirrorKey, "86400")
			list, err := s.List(t.Context(), "")
			if err != nil || len(list) != 1 || !about(time.Until(list[0].Expires), 24*time.Hour) {
				t.Errorf("the list is %+v, %v, want one that lives 24h", list, err)
			}
			if left := ttl(t, r, "{"+mirrorKey+"}:state"); !about(left, 48*time.Hour) {
				t.Errorf("its state lives %v, want 48h", left)
			}
		}},
		{"another session has another hash", func(t *testing.T, r *redistest.Server, s *Store, _ func() string) {
			r.Do("HSET", mirrorKey+"~qa1", "sid", "qa")
			want(t, "the jar", load(t, s, session.Key{Site: "shop.test", ID: "qa1"}), "sid=qa")
			want(t, "the default jar", load(t, s, shop), "absent")
		}},
		{"a key of another type is an error, and no outage", func(t *testing.T, r *redistest.Server, s *Store, _ func() string) {
			r.Do("SET", mirrorKey, "text")
			if _, err := s.Load(t.Context(), shop); err == nil || errors.Is(err, session.ErrNotFound) || !strings.Contains(err.Error(), "WRONGTYPE") {
				t.Errorf("error %v, want one of the wrong type", err)
			}
			if !s.Up() {
				t.Error("the store is away")
			}
		}},
		{"what is not ours is an error", func(t *testing.T, r *redistest.Server, s *Store, _ func() string) {
			set(t, s, shop, "sid=1")
			r.Do("HSET", "{"+mirrorKey+"}:jar", "cXXX", "\x00garbage")
			other := open(t, Options{Client: dial(t, r.URL())})
			if _, err := other.Load(t.Context(), shop); err == nil || errors.Is(err, session.ErrNotFound) || !strings.Contains(err.Error(), ":jar") {
				t.Errorf("error %v, want one that names the jar", err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, client := single(t)
			var mu sync.Mutex
			var reasons []string
			s := open(t, Options{Client: client, Refused: func(reason string) {
				mu.Lock()
				defer mu.Unlock()
				reasons = append(reasons, reason)
			}})
			tt.run(t, r, s, func() string {
				mu.Lock()
				defer mu.Unlock()
				slices.Sort(reasons)
				return strings.Join(reasons, " ")
			})
		})
	}
}

// Writers on two proxies and workers change different names at once: all win.
func TestWritersOnSeveralSidesAllWin(t *testing.T) {
	t.Parallel()
	r, client := single(t)
	a, b := open(t, Options{Client: client}), open(t, Options{Client: client})
	const rounds = 50
	var wg sync.WaitGroup
	for i, s := range []*Store{a, b} {
		for w := range 3 {
			wg.Go(func() {
				for n := range rounds {
					set(t, s, shop, fmt.Sprintf("p%d%d=%d", i, w, n))
				}
			})
		}
	}
	wg.Go(func() {
		for n := range rounds {
			r.Do("HSET", mirrorKey, "worker", n)
		}
	})
	wg.Wait()
	const last = rounds - 1
	all := fmt.Sprintf("p00=%[1]d p01=%[1]d p02=%[1]d p10=%[1]d p11=%[1]d p12=%[1]d worker=%[1]d", last)
	want(t, "the jar", load(t, a, shop), all)
	want(t, "the jar of the other", load(t, b, shop), all)
	want(t, "the hash", mirror(t, r), all)
}

// What memory knew last may be old: another proxy has filled the session since.
func TestAnEndIsOfWhatRedisHolds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(*Store, context.Context, session.Key) error
	}{{"clear", (*Store).Clear}, {"revoke", (*Store).Revoke}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, client := single(t)
			a, b := open(t, Options{Client: client}), open(t, Options{Client: client})
			want(t, "the jar before", load(t, a, shop), "absent")
			set(t, b, shop, "sid=1")
			if err := tt.end(a, t.Context(), shop); err != nil {
				t.Fatal(err)
			}
			want(t, "the jar", load(t, b, shop), "")
			want(t, "the hash", mirror(t, r), "")
		})
	}
}

func TestAtRest(t *testing.T) {
	t.Parallel()
	r, client := single(t)
	oldKey, newKey := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	private := session.Key{Site: shop.Site, ID: shop.ID, Worker: "w"}
	first := open(t, Options{Client: client, Encryption: [][]byte{oldKey}, NoMirror: true})
	set(t, first, shop, "name1=secret1", "gone=secret2")
	set(t, first, private, "name3=secret3")
	if err := first.Revoke(t.Context(), session.Key{Site: "revoked.test", ID: shop.ID}); err != nil {
		t.Fatal(err)
	}
	set(t, first, session.Key{Site: "revoked.test", ID: shop.ID}, "name4=secret4")
	if err := first.Revoke(t.Context(), session.Key{Site: "revoked.test", ID: shop.ID}); err != nil {
		t.Fatal(err)
	}
	dump := contents(t, r)
	for _, text := range []string{"secret", "name1", "name3", "name4", "gone"} {
		if strings.Contains(dump, text) {
			t.Errorf("Redis holds %q in clear", text)
		}
	}

	rotated := open(t, Options{Client: client, Encryption: [][]byte{newKey, oldKey}, NoMirror: true})
	want(t, "the jar with both keys", load(t, rotated, shop), "gone=secret2 name1=secret1")
	want(t, "the private jar", load(t, rotated, private), "name3=secret3")

	for name, keys := range map[string][][]byte{"the wrong key": {newKey}, "no key": nil} {
		s := open(t, Options{Client: client, Encryption: keys, NoMirror: true})
		for _, key := range []session.Key{shop, private} {
			if _, err := s.Load(t.Context(), key); !errors.Is(err, seal.ErrSealed) || errors.Is(err, session.ErrNotFound) {
				t.Errorf("%s: error %v, want %v", name, err, seal.ErrSealed)
			}
			u := session.Update{Base: session.Latest, Cookies: []session.Cookie{cookie("a=1")}}
			if _, _, err := s.Apply(t.Context(), key, u, hourly); !errors.Is(err, seal.ErrSealed) {
				t.Errorf("%s: Apply: error %v, want %v", name, err, seal.ErrSealed)
			}
		}
		if !s.Up() {
			t.Errorf("%s counts as an outage", name)
		}
	}
	want(t, "the jar after all that", load(t, rotated, shop), "gone=secret2 name1=secret1")
}

// contents is all that a Redis holds, as one text.
func contents(t testing.TB, r *redistest.Server) string {
	t.Helper()
	var b strings.Builder
	keys, err := r.Client().Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		dump := r.Do("DUMP", key)
		fmt.Fprintf(&b, "%s %v\n", key, dump)
		if kind := r.Do("TYPE", key); kind == "hash" {
			fmt.Fprintln(&b, r.Do("HGETALL", key))
		}
	}
	return b.String()
}
