package redispool_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/proxy/upstream/redispool"
)

// What as many owners as one call asks for cost Redis, each time they ask, at a
// pool of a thousand upstreams that are all leased.
func BenchmarkACrowdAsks(b *testing.B) {
	s := redistest.Single(b)
	l := redispool.New(redispool.Options{
		Client: client(b, s), Prefix: "session:", New: true, Log: slog.New(slog.DiscardHandler),
		LeaseTime: upstream.LeaseTime, ForeignTime: redispool.ForeignTime,
	})
	const n = 1000
	d := upstream.Declaration{Capacity: 1}
	for i := range n {
		d.URLs = append(d.URLs, fmt.Sprintf("http://10.0.%d.%d:3128", i/250, i%250))
	}
	if err := l.Declare(b.Context(), pool, d); err != nil {
		b.Fatal(err)
	}
	ask := func(from, to int) {
		var asks []upstream.Ask
		for i := from; i < to; i++ {
			asks = append(asks, upstream.Ask{Owner: fmt.Sprint("w", i), Token: fmt.Sprint("t", i)})
		}
		if _, err := l.Acquire(b.Context(), pool, asks); err != nil {
			b.Fatal(err)
		}
	}
	for i := 0; i < n; i += 50 {
		ask(i, i+50)
	}
	for b.Loop() {
		ask(n, n+64)
	}
}
