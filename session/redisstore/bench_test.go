package redisstore

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
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

// BenchmarkLoadAmongMany loads one session in use beside a hundred thousand of
// ten cookies each, which memory holds as many of as its limit lets it.
func BenchmarkLoadAmongMany(b *testing.B) {
	_, client := single(b)
	const sessions, limit = 100_000, 64 << 20
	s := follow(b, Options{Client: client, CacheBytes: limit})
	var ten []string
	for i := range 10 {
		ten = append(ten, fmt.Sprintf("cookie%d=%s", i, strings.Repeat("x", 40)))
	}
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := w; i < sessions; i += 16 {
				set(b, s, session.Key{Site: "shop.test", ID: fmt.Sprint("s", i)}, ten...)
			}
		})
	}
	wg.Wait()
	set(b, s, shop, ten...)
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s.cache.mu.RLock()
	size := s.cache.size
	s.cache.mu.RUnlock()

	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Load(ctx, shop); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(mem.HeapAlloc>>20), "heap-MiB")
	b.ReportMetric(float64(size>>20), "cache-MiB")
}
