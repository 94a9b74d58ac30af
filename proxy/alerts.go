package proxy

import (
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"
)

// alerts tells the operator of clients that do not trust our CA: once for each
// client, and not where the client then succeeds, as browsers that probe do.
type alerts struct {
	log *slog.Logger

	mu   sync.Mutex // guards seen
	seen map[string]*alert
}

type alert struct {
	pending *time.Timer // waits for a handshake that succeeds
	trusts  bool        // it has shaken hands before
	told    bool
}

// alertGrace is how long a client has to succeed after a failed handshake.
const alertGrace = 5 * time.Second

// maxAlerts bounds the memory of clients.
const maxAlerts = 4096

func newAlerts(log *slog.Logger) *alerts { return &alerts{log: log, seen: map[string]*alert{}} }

func (a *alerts) of(id *identity) *alert {
	key := id.name + "\x00" + id.worker
	s := a.seen[key]
	if s == nil {
		if len(a.seen) >= maxAlerts {
			for k, old := range a.seen {
				if old.pending == nil {
					delete(a.seen, k)
					break
				}
			}
		}
		s = new(alert)
		a.seen[key] = s
	}
	return s
}

// failed notes a handshake that a client of ours gave up. A client that trusts
// the CA may close connections that it has no use for, but sends no alert then.
func (a *alerts) failed(id *identity, host string, err error) {
	alert := tlsAlert(err)
	if !alert && !errors.Is(err, io.EOF) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.of(id)
	if s.told || s.pending != nil || s.trusts && !alert {
		return
	}
	s.pending = time.AfterFunc(alertGrace, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		s.pending, s.told = nil, true
		a.log.Warn("a client does not trust the proxy's CA: give it ca.pem from the state directory, or from http://"+internalHost+"/ through the proxy",
			"client", id.name, "worker", id.worker, "host", host, "err", err)
	})
}

// succeeded notes a finished handshake.
func (a *alerts) succeeded(id *identity) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.of(id)
	s.trusts = true
	if s.pending != nil {
		s.pending.Stop()
		s.pending = nil
	}
}

func (a *alerts) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.seen {
		if s.pending != nil {
			s.pending.Stop()
		}
	}
}
