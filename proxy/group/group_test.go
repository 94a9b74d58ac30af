package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/proxy/access/filestore"
	"github.com/sessionproxy/sessionproxy/proxy/access/redisstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func join(t *testing.T, store access.Store, host string, count func() Counts) *Group {
	t.Helper()
	g := Join(Options{Store: store, Host: host, Admin: "127.0.0.1:8081", Version: "v1", Count: count, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(g.Leave)
	return g
}

func none() Counts { return Counts{} }

func hosts(t *testing.T, g *Group) string {
	t.Helper()
	all, err := g.Members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range all {
		names = append(names, m.Host)
	}
	return strings.Join(names, " ")
}

func TestMembersComeAndGo(t *testing.T) {
	store, err := filestore.Open(filepath.Join(t.TempDir(), "access.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	synctest.Test(t, func(t *testing.T) {
		a := join(t, store, "a", none)
		b := join(t, store, "b", none)
		synctest.Wait()
		if got := hosts(t, a); got != "a b" {
			t.Errorf("two members are %s", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := hosts(t, a); got != "a b" {
			t.Errorf("after a minute they are %s", got)
		}
		b.Leave()
		if got := hosts(t, a); got != "a" {
			t.Errorf("when b left: %s", got)
		}
		if got := hosts(t, b); got != "a" {
			t.Errorf("b, which left, sees %s", got)
		}
	})
}

// A member that can't take its word back is forgotten when that is over.
func TestAKilledMemberIsForgotten(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	store := redisstore.New(client, "session:")
	a := join(t, store, "a", none)
	word := fmt.Sprintf(`{"id":"1","host":"killed","seen":%q}`, time.Now().Format(time.RFC3339))
	if _, err := store.Swap(t.Context(), key+"1", nil, []byte(word), life); err != nil {
		t.Fatal(err)
	}
	if got := hosts(t, a); got != "a killed" {
		t.Errorf("at first: %s", got)
	}
	if left := client.PTTL(t.Context(), "session:proxies:1").Val(); left <= 0 || left > 15*time.Second {
		t.Errorf("it lives %v more, want 15 s at most", left)
	}
	client.PExpire(t.Context(), "session:proxies:1", time.Millisecond)
	for hosts(t, a) != "a" {
		time.Sleep(time.Millisecond)
	}
}

func TestSamplesAreWhatWasCountedInFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Uint64
		n.Store(100)
		g := join(t, nil, "a", func() Counts {
			return Counts{Exchanges: n.Load(), Failed: n.Load() / 10, Workers: 3, Added: []uint64{n.Load(), 0}}
		})
		time.Sleep(Every)
		synctest.Wait()
		n.Add(50)
		time.Sleep(Every)
		synctest.Wait()
		time.Sleep(Every)
		synctest.Wait()
		all, err := g.Members(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := all[0].Samples
		end := got[0].End
		want := []Sample{
			{end, Counts{Exchanges: 100, Failed: 10, Workers: 3, Added: []uint64{100, 0}}},
			{end + 5, Counts{Exchanges: 50, Failed: 5, Workers: 3, Added: []uint64{50, 0}}},
			{end + 10, Counts{Workers: 3}},
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || end%5 != 0 {
			t.Errorf("samples %v, want %v", got, want)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if all, _ := g.Members(t.Context()); len(all[0].Samples) != keep || all[0].Samples[keep-1].End-all[0].Samples[0].End != 5*(keep-1) {
			t.Errorf("%d samples are kept, want %d", len(all[0].Samples), keep)
		}
	})
}

// down is a store that does not answer.
type down struct{ access.Store }

var errDown = errors.New("down")

func (down) Get(context.Context, string) ([]byte, error) { return nil, errDown }
func (down) List(context.Context, string) (map[string][]byte, error) {
	return nil, errDown
}

// Nobody waits for a store that is away, and its loss is told once.
func TestWithoutItsStoreAMemberKnowsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := Join(Options{Store: down{}, Host: "a", Count: none, Log: slog.New(slog.NewTextHandler(&log, nil))})
		time.Sleep(time.Minute)
		all, err := g.Members(t.Context())
		if len(all) != 1 || all[0].ID != g.Self() || !errors.Is(err, errDown) {
			t.Errorf("members %v, %v", all, err)
		}
		g.Leave()
		if n := strings.Count(log.String(), "level=WARN"); n != 1 {
			t.Errorf("the loss is told %d times: %s", n, &log)
		}
	})
}

func TestDistributionsAreAdded(t *testing.T) {
	t.Parallel()
	bounds := []float64{0.001, 0.004, 0.016}
	member := func(samples ...Sample) Member { return Member{Samples: samples} }
	now := time.Unix(1000, 0)
	points := add([]Member{
		member(Sample{990, Counts{Exchanges: 10, Failed: 1, Added: []uint64{10, 0, 0, 0}}}, Sample{995, Counts{Exchanges: 20}}),
		member(Sample{990, Counts{Exchanges: 30, Added: []uint64{0, 28, 0, 2}}}),
		member(Sample{100, Counts{Exchanges: 9}}), // too old
	}, bounds, now)
	if len(points) != keep || points[keep-1].Time.Unix() != 1000 {
		t.Fatalf("%d points, the last of %v", len(points), points[len(points)-1].Time)
	}
	i := slices.IndexFunc(points, func(p Point) bool { return p.Time.Unix() == 990 })
	p := points[i]
	if p.Exchanges != 40 || p.Failed != 1 {
		t.Errorf("%+v", p)
	}
	// 10 up to 1 ms and 28 between 1 and 4: the 20th is at 10/28 of the way.
	if want := 0.001 + 0.003*10/28; p.Added50 < want-1e-9 || p.Added50 > want+1e-9 {
		t.Errorf("half took %v, want %v", p.Added50, want)
	}
	if p.Added99 != 0.016 {
		t.Errorf("99 %% took %v, want the last bound", p.Added99)
	}
	if q := points[i+1]; q.Exchanges != 20 || q.Added99 != 0 {
		t.Errorf("%+v", q)
	}
}
