package embedded

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sessionproxy/sessionproxy/session"
)

func fiveCookies(value string) session.Update {
	var cookies []session.Cookie
	for i := range 5 {
		cookies = append(cookies, cookie(fmt.Sprintf("cookie%d", i), value))
	}
	return set(cookies...)
}

func benchStore(b *testing.B) *Store {
	b.Helper()
	s := openAt(b, tempPath(b))
	if _, _, err := s.Apply(b.Context(), shop, fiveCookies("value"), hourly); err != nil {
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

func BenchmarkApplyUnchanged(b *testing.B) {
	s, ctx, u := benchStore(b), b.Context(), fiveCookies("value")
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, _, err := s.Apply(ctx, shop, u, hourly); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkApply is the latency of one writer alone: a commit each.
func BenchmarkApply(b *testing.B) {
	s, ctx := benchStore(b), b.Context()
	for i := 0; b.Loop(); i++ {
		if _, _, err := s.Apply(ctx, shop, set(cookie("sid", fmt.Sprint(i))), hourly); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkApplyParallel has 32 writers a core, to one session and to many.
func BenchmarkApplyParallel(b *testing.B) {
	for name, sessions := range map[string]int64{"one session": 1, "1000 sessions": 1000} {
		b.Run(name, func(b *testing.B) {
			s, ctx := benchStore(b), b.Context()
			before := commits(b, s)
			var n atomic.Int64
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := n.Add(1)
					key := session.Key{Site: shop.Site, ID: fmt.Sprint(i % sessions)}
					if _, _, err := s.Apply(ctx, key, set(cookie("sid", fmt.Sprint(i))), hourly); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(commits(b, s)-before)/float64(b.N), "commits/op")
		})
	}
}
