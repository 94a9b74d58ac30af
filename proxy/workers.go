package proxy

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Worker is one running instance of a client, as this process has seen it.
type Worker struct {
	Client   string // "" unnamed
	Name     string // its address unless it names itself
	From     string // its address at the last request
	Site     string // of the last request; "" a host that no site declares
	Session  string // the same
	Requests int64
	First    time.Time
	Last     time.Time
}

// workers remembers those that were seen last.
type workers struct {
	mu  sync.RWMutex // guards all
	all map[workerName]*worker
}

type workerName struct{ client, worker string }

// worker is written by each request, without a lock.
type worker struct {
	first    time.Time
	last     atomic.Int64 // microseconds since 1970
	requests atomic.Int64
	of       atomic.Pointer[exchangeOfWorker]
}

// exchangeOfWorker is what the last request was.
type exchangeOfWorker struct {
	id   *identity
	site *site
}

// maxWorkers bounds them, since clients choose the names of workers.
const maxWorkers = 4096

// seen notes a request.
func (w *workers) seen(id *identity, s *site) {
	name := workerName{id.name, id.worker}
	now := time.Now()
	w.mu.RLock()
	one := w.all[name]
	w.mu.RUnlock()
	if one == nil {
		one = w.begin(name, now)
	}
	one.last.Store(now.UnixMicro())
	one.requests.Add(1)
	if of := one.of.Load(); of == nil || of.id != id || of.site != s { // a tunnel has one identity
		one.of.Store(&exchangeOfWorker{id, s})
	}
}

func (w *workers) begin(name workerName, now time.Time) *worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.all[name]
	if one == nil {
		if len(w.all) >= maxWorkers {
			w.makeRoom()
		}
		one = &worker{first: time.UnixMicro(now.UnixMicro())}
		w.all[name] = one
	}
	return one
}

// makeRoom forgets the half that was seen longest ago. w.mu is held.
func (w *workers) makeRoom() {
	last := make([]int64, 0, len(w.all))
	for _, one := range w.all {
		last = append(last, one.last.Load())
	}
	slices.Sort(last)
	for name, one := range w.all {
		if one.last.Load() <= last[len(last)/2] {
			delete(w.all, name)
		}
	}
}

// Workers lists the workers that this process has seen, the last first.
func (p *Proxy) Workers() []Worker {
	p.workers.mu.RLock()
	defer p.workers.mu.RUnlock()
	all := make([]Worker, 0, len(p.workers.all))
	for name, one := range p.workers.all {
		of := one.of.Load()
		if of == nil {
			continue // its first request is just being noted
		}
		w := Worker{
			Client: name.client, Name: name.worker, From: of.id.from.String(), Session: of.id.session,
			Requests: one.requests.Load(), First: one.first, Last: time.UnixMicro(one.last.Load()),
		}
		if of.site != nil {
			w.Site = of.site.Name
		}
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b Worker) int { return b.Last.Compare(a.Last) })
	return all
}
