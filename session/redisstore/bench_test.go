package redisstore

import (
	"fmt"
	"testing"

	"github.com/sessionproxy/sessionproxy/session"
)

// benchStore follows a Redis, and knows a session of five cookies.
func benchStore(b *testing.B) *Store {
	b.Helper()
	_, client := single(b)
	s := follow(b, Options{Client: client})
	u := session.Update{Base: session.Latest}
	for i := range 5 {
		u.Cookies = append(u.Cookies, cookie(fmt.Sprintf("cookie%d=value", i)))
	}
	if _, _, err := s.Apply(b.Context(), shop, u, hourly); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	return s
}

func BenchmarkLoad(b *testing.B) {
	s, ctx := benchStore(b), b.Context()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Load(ctx, shop); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkRenew(b *testing.B) {
	s, ctx := benchStore(b), b.Context()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := s.Renew(ctx, shop, hourly); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkApplyChanged(b *testing.B) {
	s, ctx := benchStore(b), b.Context()
	for i := 0; b.Loop(); i++ {
		u := session.Update{Base: session.Latest, Cookies: []session.Cookie{cookie(fmt.Sprint("cookie0=", i))}}
		if _, _, err := s.Apply(ctx, shop, u, hourly); err != nil {
			b.Fatal(err)
		}
	}
}
