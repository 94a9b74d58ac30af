package proxy

import (
	"io"
	"net"
	"runtime"
	"sync"
	"time"
)

// joined holds a small write back until the next one, or until all goroutines
// had their turn, whichever is first. net/http writes the head of an HTTP/2
// response and its body one after the other, though both are there: the way
// through the kernel, twice, is what a response costs most.
type joined struct {
	mu   sync.Mutex // guards what follows
	held []byte     // one of joinBuffers; nil: nothing
	err  error      // of any write: the next one returns it
}

const (
	maxJoined = 4 << 10
	maxFirst  = 1 << 10 // the head of a response is smaller
)

var joinBuffers = sync.Pool{New: func() any { return new([maxJoined]byte) }}

func (j *joined) write(to io.Writer, b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.err != nil:
	case j.held == nil && len(b) <= maxFirst:
		j.held = append(joinBuffers.Get().(*[maxJoined]byte)[:0], b...)
		go j.sendSoon(to)
	case j.held != nil && len(j.held)+len(b) <= maxJoined:
		j.held = append(j.held, b...)
		j.send(to)
	default:
		j.send(to)
		if j.err == nil {
			_, j.err = to.Write(b)
		}
	}
	if j.err != nil {
		return 0, j.err
	}
	return len(b), nil
}

func (j *joined) sendSoon(to io.Writer) {
	runtime.Gosched()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.send(to)
}

// send writes what is held. j.mu is held.
func (j *joined) send(to io.Writer) {
	if j.held == nil {
		return
	}
	if j.err == nil {
		_, j.err = to.Write(j.held)
	}
	joinBuffers.Put((*[maxJoined]byte)(j.held[:maxJoined]))
	j.held = nil
}

// end sends what is held before to is closed. A write that waits for its peer is
// not waited for: the close ends it.
func (j *joined) end(to net.Conn) {
	if !j.mu.TryLock() {
		return
	}
	defer j.mu.Unlock()
	if j.held != nil {
		to.SetWriteDeadline(time.Now().Add(time.Second))
		j.send(to)
	}
}
