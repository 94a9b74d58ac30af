package captchatest

import (
	"net/http"
	"time"
)

// Fault is a reply that is none of the service's own: what stands in front of
// it, or what the network does.
type Fault struct {
	Status int // default 200
	Header map[string]string
	Body   string
	Cut    bool          // the body ends before its announced length
	Reset  bool          // the connection breaks in place of a reply
	Hang   time.Duration // before any of that
	Taken  bool          // the request takes effect all the same
}

// Fail makes the next calls of a path meet these faults, in order.
func (s *Service) Fail(path string, faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[path] = append(s.faults[path], faults...)
}

func (s *Service) nextFault(path string) (Fault, bool) {
	waiting := s.faults[path]
	if len(waiting) == 0 {
		return Fault{}, false
	}
	s.faults[path] = waiting[1:]
	return waiting[0], true
}

func (f Fault) write(w http.ResponseWriter, r *http.Request) {
	if f.Hang > 0 {
		t := time.NewTimer(f.Hang)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
		}
	}
	if f.Reset {
		panic(http.ErrAbortHandler)
	}
	for name, value := range f.Header {
		w.Header().Set(name, value)
	}
	if f.Cut {
		w.Header().Set("Content-Length", "100000")
	}
	if f.Status != 0 {
		w.WriteHeader(f.Status)
	}
	_, _ = w.Write([]byte(f.Body))
	if f.Cut {
		panic(http.ErrAbortHandler)
	}
}
