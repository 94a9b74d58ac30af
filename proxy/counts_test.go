package proxy_test

import (
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/world"
)

// What the dashboard is told is what the metrics say.
func TestCountsAreThoseOfTheMetrics(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: login})
	before, bounds := w.Counts()
	if len(bounds) == 0 || len(before.Added) != len(bounds)+1 {
		t.Fatalf("%d bounds, and %d counts between them", len(bounds), len(before.Added))
	}
	for range 3 {
		w.Get(t, world.Plain, "/")
	}
	world.Do(t, w.Client(world.Plain), world.Request(t, "TRACE", world.Plain.URL("/"), nil))
	w.WantRecord(t, "exchange", "method", "TRACE")
	got, _ := w.Counts()
	for got.Exchanges < 4 && t.Context().Err() == nil { // answers arrive before they are counted
		time.Sleep(time.Millisecond)
		got, _ = w.Counts()
	}
	if got.Exchanges != 4 || got.Refused != 1 || got.Failed != 0 || got.Workers != 1 {
		t.Errorf("%+v", got)
	}
	sum := uint64(0)
	for _, n := range got.Added {
		sum += n
	}
	if want := count(t, w.Proxy, "sessionproxy_overhead_seconds"); float64(sum) != want {
		t.Errorf("%d exchanges took a time, want %v", sum, want)
	}
}
