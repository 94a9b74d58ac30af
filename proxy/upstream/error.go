package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
)

// Reason says in one word why an upstream failed. It is the label of a metric.
type Reason string

// The reasons there are.
const (
	Dial     Reason = "dial"     // no connection to it
	TLS      Reason = "tls"      // no handshake with an https upstream
	Auth     Reason = "auth"     // it wants other credentials
	Timeout  Reason = "timeout"  // it did not answer in time
	Closed   Reason = "closed"   // it closed the connection before an answer
	Protocol Reason = "protocol" // its answer is neither HTTP nor SOCKS5
	Refused  Reason = "refused"  // it opened no way to the target
	Banned   Reason = "banned"   // a site refused what came from it
	Check    Reason = "check"    // the pool's check failed
	Own      Reason = "own"      // it is a listener of this proxy
)

// Error is a failure on the way to a target that happened at the upstream.
type Error struct {
	Reason   Reason
	Upstream Upstream
	Status   int // of its answer to CONNECT, or the reply code of SOCKS5; 0: none
	err      error
	asked    bool // the target was asked for already, so it may be at fault
}

func (e *Error) Error() string {
	text := fmt.Sprintf("upstream %s: %s", e.Upstream, e.Reason)
	if e.Status != 0 {
		text = fmt.Sprintf("%s (%d)", text, e.Status)
	}
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.err }

// certain says that the upstream is at fault. A refusal, a silence or an end
// after it was asked for a target may be the target's.
func (e *Error) certain() bool {
	switch e.Reason {
	case Refused:
		return false
	case Timeout, Closed, Auth:
		return !e.asked
	}
	return true
}

// fault makes an error of what happened while talking with the upstream.
func fault(u Upstream, reason Reason, err error) *Error {
	var netErr net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &netErr) && netErr.Timeout() {
		reason = Timeout
	}
	return &Error{Reason: reason, Upstream: u, err: err}
}

// unanswered is a fault while the target was asked for.
func unanswered(u Upstream, err error) *Error {
	f := fault(u, Closed, err)
	f.asked = true
	return f
}
