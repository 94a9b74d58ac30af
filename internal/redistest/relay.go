package redistest

import (
	"net"
	"sync"
	"testing"
)

// Relay stands between clients and a server, and spoils the road between them.
type Relay struct {
	// Addr is where clients find it.
	Addr string

	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex // guards what follows
	roads []*road    // the last one is for new connections
	conns map[net.Conn]bool
	ended bool
}

// road is what some of the connections take. It is open while nothing holds
// them up.
type road struct{ open chan struct{} }

func newRoad() *road {
	r := &road{make(chan struct{})}
	close(r.open)
	return r
}

// NewRelay starts one before a server.
func NewRelay(t testing.TB, target string) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{Addr: l.Addr().String(), target: target, listener: l, roads: []*road{newRoad()}, conns: map[net.Conn]bool{}}
	r.wg.Go(r.accept)
	t.Cleanup(func() {
		r.mu.Lock()
		r.ended = true
		r.mu.Unlock()
		l.Close()
		r.Cut()
		r.Resume()
		r.wg.Wait()
	})
	return r
}

// Stall leaves every connection open and lets no byte pass either way, as a
// network does that lost its road and tells nobody. New connections are taken
// and stand still too.
func (r *Relay) Stall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, road := range r.roads {
		select {
		case <-road.open:
			road.open = make(chan struct{})
		default:
		}
	}
}

// Lose is Stall for the connections there are. New ones pass, as they do where
// a router forgot the old ones.
func (r *Relay) Lose() {
	r.Stall()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.roads = append(r.roads, newRoad())
}

// Resume lets pass what was held, and what comes.
func (r *Relay) Resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, road := range r.roads {
		select {
		case <-road.open:
		default:
			close(road.open)
		}
	}
}

// Cut closes the connections there are. New ones are taken.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		c.Close()
	}
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			client.Close()
			continue
		}
		way, ok := r.add(client, server)
		if !ok {
			return
		}
		r.wg.Go(func() { r.pass(way, server, client) })
		r.wg.Go(func() { r.pass(way, client, server) })
	}
}

func (r *Relay) add(conns ...net.Conn) (way *road, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		r.conns[c] = true
		if r.ended {
			c.Close()
		}
	}
	return r.roads[len(r.roads)-1], !r.ended
}

func (r *Relay) gate(way *road) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return way.open
}

// pass copies until either side ends, and then ends both.
func (r *Relay) pass(way *road, to, from net.Conn) {
	defer func() {
		to.Close()
		from.Close()
		r.mu.Lock()
		delete(r.conns, from)
		r.mu.Unlock()
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		<-r.gate(way)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
