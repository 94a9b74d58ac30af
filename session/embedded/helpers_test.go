package embedded

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

var (
	shop   = session.Key{Site: "shop.test", ID: session.DefaultID}
	hourly = session.Life{Idle: time.Hour}
)

func tempPath(t testing.TB) string { return filepath.Join(t.TempDir(), "sessions.db") }

// openAt opens the store at path, and closes it when the test is over.
func openAt(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func cookie(name, value string) session.Cookie {
	return session.Cookie{Name: name, Value: value, Domain: "shop.test", HostOnly: true, Path: "/", Secure: true}
}

// large are cookies of 16 KB in all.
func large(i int) []session.Cookie {
	var cookies []session.Cookie
	for n := range 4 {
		cookies = append(cookies, cookie(fmt.Sprintf("large%d.%d", i, n), strings.Repeat("x", 4000)))
	}
	return cookies
}

func set(cookies ...session.Cookie) session.Update {
	return session.Update{Base: session.Latest, Writer: session.ByReply, Cookies: cookies}
}

func apply(t testing.TB, s *Store, key session.Key, cookies ...session.Cookie) *session.Jar {
	t.Helper()
	jar, _, err := s.Apply(t.Context(), key, set(cookies...), hourly)
	if err != nil {
		t.Fatal(err)
	}
	return jar
}

// value is the cookie's value under key, "" where there is none.
func value(t testing.TB, s *Store, key session.Key, name string) string {
	t.Helper()
	jar, err := s.Load(t.Context(), key)
	if err != nil {
		return ""
	}
	for _, c := range jar.Cookies() {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}
