package tracking

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

// link is how the changes of one master are heard, over one connection after
// another.
type link struct {
	t        *Tracker
	addr     string
	master   atomic.Pointer[conn.Master] // what it serves now
	coherent atomic.Bool
	ctx      context.Context // ends when this is no master any more
	cancel   context.CancelFunc
}

var (
	errNotMaster = errors.New("it is no master")
	errDeaf      = errors.New("it says that it tracks keys and does not: RESP3 pushes must reach the client, see what stands between")
)

func newLink(ctx context.Context, t *Tracker, addr string) *link {
	l := &link{t: t, addr: addr}
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

// stop ends the link. From now on nothing is coherent by it.
func (l *link) stop() {
	l.cancel()
	l.coherent.Store(false)
}

// run listens until the link is stopped. It says once that changes are not
// heard any more, and why.
func (l *link) run() {
	const first, last = 20 * time.Millisecond, time.Second
	said := false
	for wait := first; ; wait = min(2*wait, last) {
		armed, err := l.session(l.ctx)
		if l.ctx.Err() != nil {
			return
		}
		if armed || !said {
			l.t.o.Log.Warn("redis tracking lost: this server's sessions are read through", slog.String("addr", l.addr), slog.Any("err", err))
			said = true
		}
		if armed {
			wait = first
		}
		l.t.lost()
		select {
		case <-l.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// session listens on one connection. It is armed by the push of a key that it
// writes itself: a connection that fell back to RESP2, or a proxy before Redis,
// may answer OK to CLIENT TRACKING and deliver nothing.
func (l *link) session(ctx context.Context) (armed bool, err error) {
	o := l.t.o
	canaries := "{" + o.Prefix + "cookies:~canary"
	var runID string
	var gone atomic.Bool
	var subscribed, heard bool
	began := time.Now()
	arm := func() {
		if !subscribed || !heard || armed || gone.Load() || l.ctx.Err() != nil {
			return
		}
		armed = true
		l.t.arm(l, runID)
		if gone.Load() || l.ctx.Err() != nil { // in the meantime
			l.coherent.Store(false)
		}
	}
	pushed := func(keys []string) {
		mine := false
		if keys != nil {
			others := keys[:0:0]
			for _, k := range keys {
				if strings.HasPrefix(k, canaries) {
					mine = true
				} else {
					others = append(others, k)
				}
			}
			keys = others
		}
		if keys == nil || len(keys) > 0 {
			o.Invalidate(keys)
		}
		heard = heard || mine
		arm()
	}
	lost := func() {
		gone.Store(true)
		l.coherent.Store(false)
	}
	err = listener{
		options: o.Client.Node(l.addr), channel: o.Prefix + "tracking", pushed: pushed, lost: lost,
		connected: func(ctx context.Context, c *redis.Conn) (err error) {
			if runID, err = l.introduce(ctx, c); err != nil {
				return err
			}
			prefixes := []string{o.Prefix + "cookies:", "{" + o.Prefix + "cookies:"}
			if err := c.ClientTrackingOn(ctx, &redis.ClientTrackingOptions{Bcast: true, Prefixes: prefixes}).Err(); err != nil {
				return fmt.Errorf("track: %w", err)
			}
			canary := l.master.Load().Key(canaries, "}:")
			return c.Set(ctx, canary, "", silence).Err()
		},
		subscribed: func() { subscribed = true; arm() },
		heard: func() error {
			if !armed && time.Since(began) > 2*silence {
				return errDeaf
			}
			return nil
		},
	}.listen(ctx)
	lost()
	return armed, err
}

// introduce makes sure that the server speaks RESP3 and is a master, and
// returns the id of its process.
func (l *link) introduce(ctx context.Context, c *redis.Conn) (runID string, err error) {
	hello, err := c.Hello(ctx, 3, "", "", "").Result()
	if err != nil {
		return "", fmt.Errorf("speak RESP3: %w", err)
	}
	if role := hello["role"]; role != "master" {
		return "", fmt.Errorf("%w but %v", errNotMaster, role)
	}
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return "", fmt.Errorf("ask for its run id: %w", err)
	}
	_, after, _ := strings.Cut(info, "run_id:")
	runID, _, _ = strings.Cut(after, "\r\n")
	return runID, nil
}
