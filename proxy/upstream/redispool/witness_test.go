package redispool_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/world"
)

// witness is an origin that knows who leaves by which upstream at every moment.
type witness struct {
	t         *testing.T
	upstreams []*world.Upstream
	number    map[string]int // of an upstream, by its own address
	journal   *journal
	served    atomic.Int64

	mu     sync.Mutex // guards inside
	inside []map[*visit]bool
}

// newWitness makes a witness with n upstreams.
func newWitness(t *testing.T, n int) *witness {
	w := &witness{t: t, number: map[string]int{}, journal: newJournal()}
	for i := range n {
		from := fmt.Sprintf("127.0.8.%d", i+1)
		w.number[from] = i
		w.upstreams = append(w.upstreams, world.NewUpstream(t, world.UpstreamOptions{From: from}))
		w.inside = append(w.inside, map[*visit]bool{})
	}
	return w
}

// visit is a request at the origin.
type visit struct {
	owner, proxy, peer string
	since              time.Time
}

func (v *visit) String() string {
	return fmt.Sprintf("%s by %s from %s since %s", v.owner, v.proxy, v.peer, v.since.Format(clock))
}

func (w *witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	v := &visit{r.Header.Get("X-Worker"), r.Header.Get("X-Proxy"), r.RemoteAddr, time.Now()}
	host, _, _ := net.SplitHostPort(v.peer)
	by, ok := w.number[host]
	if !ok {
		w.t.Errorf("%v came directly", v)
		return
	}
	u := w.upstreams[by]
	w.mu.Lock()
	if !u.Saw(v.peer, v.owner) { // it was killed, or its client has gone, before the request was looked at
		w.mu.Unlock()
		return
	}
	if !w.journal.leased(v.proxy, v.owner, u.Addr) {
		w.t.Errorf("an owner left by the upstream %d, %s, without a lease on it:\n%v\n%s", by, u.Addr, v, w.journal.of(u.Addr))
	}
	for other := range w.inside[by] {
		if other.owner != v.owner && u.Has(other.peer) {
			w.t.Errorf("at one moment two owners left by the upstream %d, %s:\n%v\n%v\n%s", by, u.Addr, other, v, w.journal.of(u.Addr))
		}
	}
	w.inside[by][v] = true
	w.mu.Unlock()
	w.served.Add(1)
	select {
	case <-time.After(rand.N(20 * time.Millisecond)):
	case <-r.Context().Done():
	}
	w.mu.Lock()
	delete(w.inside[by], v)
	w.mu.Unlock()
	io.WriteString(rw, "served")
}

// judge reads the upstreams' own logs: a connection carries one owner's requests,
// and while it is there the upstream has none of another's.
func (w *witness) judge() {
	for n, u := range w.upstreams {
		owners := map[string]bool{}
		log := u.Log()
		known := 0
		for _, v := range log {
			if len(v.Owners) == 0 {
				continue // it was opened in vain, or to see whether the upstream is there
			}
			known++
			owners[v.Owners[0]] = true
			if len(v.Owners) > 1 {
				w.t.Errorf("upstream %d: its connection %d carried requests of %q", n, v.Number, v.Owners)
			}
			for _, number := range v.Beside {
				other := log[number]
				if len(other.Owners) > 0 && other.Owners[0] != v.Owners[0] {
					w.t.Errorf("upstream %d: when %s connected at %s, %s was still connected, since %s:\n%s",
						n, v.Owners[0], v.Began.Format(clock), other.Owners[0], other.Began.Format(clock), w.journal.around(u.Addr, v.Began))
				}
			}
		}
		w.t.Logf("upstream %d: %d connections, %d of them in use by %d owners, one at a time", n, len(log), known, len(owners))
	}
}
