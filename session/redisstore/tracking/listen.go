package tracking

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/push"
)

// listener is one connection on which a server speaks when it has to. It lives
// once: who wants another calls listen again.
type listener struct {
	options    *redis.Options
	channel    string
	connected  func(ctx context.Context, c *redis.Conn) error // before anything is heard; may be nil
	subscribed func()                                         // may be nil
	message    func(*redis.Message)                           // may be nil
	pushed     func(keys []string)                            // of client-side tracking; nil: all. May be nil
	heard      func() error                                   // after anything came; an error ends the connection. May be nil
	lost       func()                                         // at the first sign that nothing will be heard. May be nil
}

var errOnce = errors.New("this connection is over")

// listen returns why the connection ended, at the latest when ctx does.
func (l listener) listen(ctx context.Context) error {
	var cause atomic.Pointer[error] // the first one: go-redis goes on to what comes of it
	fail := func(err error) error {
		if err != nil {
			cause.CompareAndSwap(nil, &err)
		}
		return err
	}
	o := *l.options
	o.Protocol = 3
	var dialled atomic.Bool
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dialled.Swap(true) {
			return nil, errOnce // a PubSub dials anew within a read, and would hide that it had to
		}
		c, err := dial(ctx, network, addr)
		if fail(err) != nil {
			return nil, err
		}
		return &watched{Conn: c, lost: l.lost}, nil
	}
	if l.connected != nil {
		o.OnConnect = func(ctx context.Context, c *redis.Conn) error { return fail(l.connected(ctx, c)) }
	}
	if l.pushed != nil {
		processor := redis.NewPushNotificationProcessor()
		if err := processor.RegisterHandler("invalidate", invalidations(l.pushed), true); err != nil {
			return err
		}
		o.PushNotificationProcessor = processor
	}
	client := redis.NewClient(&o)
	defer func() { _ = client.Close() }()
	sub := client.Subscribe(ctx, l.channel)
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()

	var wg sync.WaitGroup
	defer wg.Wait()
	beats, stop := context.WithCancel(ctx)
	defer stop()
	wg.Go(func() {
		for tick := time.NewTicker(beat); ; {
			select {
			case <-beats.Done():
				tick.Stop()
				return
			case <-tick.C:
				_ = sub.Ping(beats) // the reader sees what comes of it
			}
		}
	})
	err := l.receive(ctx, sub)
	_ = sub.Close()
	if first := cause.Load(); first != nil {
		return *first
	}
	return err
}

func (l listener) receive(ctx context.Context, sub *redis.PubSub) error {
	for {
		m, err := sub.ReceiveTimeout(ctx, silence)
		if err != nil {
			if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
				return fmt.Errorf("nothing came for %v: %w", silence, err)
			}
			return err
		}
		switch m := m.(type) {
		case *redis.Subscription:
			if l.subscribed != nil {
				l.subscribed()
			}
		case *redis.Message:
			if l.message != nil {
				l.message(m)
			}
		}
		if l.heard != nil {
			if err := l.heard(); err != nil {
				return err
			}
		}
	}
}

// watched tells at once that a connection is lost: go-redis returns from the
// read only when it has tried another.
type watched struct {
	net.Conn

	lost func()
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err != nil && w.lost != nil {
		w.lost()
	}
	return n, err
}

func (w *watched) Close() error {
	if w.lost != nil {
		w.lost()
	}
	return w.Conn.Close()
}

// invalidations reads Redis' pushes.
type invalidations func(keys []string)

func (f invalidations) HandlePushNotification(_ context.Context, _ push.NotificationHandlerContext, n []any) error {
	if len(n) < 2 || n[1] == nil { // FLUSHALL and FLUSHDB name no keys
		f(nil)
		return nil
	}
	list, ok := n[1].([]any)
	if !ok {
		f(nil)
		return fmt.Errorf("an invalidation of %T", n[1])
	}
	keys := make([]string, 0, len(list))
	for _, k := range list {
		if k, ok := k.(string); ok {
			keys = append(keys, k)
		}
	}
	f(keys)
	return nil
}
