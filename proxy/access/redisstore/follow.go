package redisstore

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/proxy/access"
)

// A link is asked for a sign of life when it was silent for that long, and is
// given up when none comes in the same time: a half-open one says nothing for
// ever.
const silence = 500 * time.Millisecond

// Waits between attempts to subscribe.
const (
	firstWait = 20 * time.Millisecond
	maxWait   = time.Second
)

// Follow subscribes, again and again until ctx ends. go-redis would subscribe
// anew by itself and not tell what was missed in between.
func (s *Store) Follow(ctx context.Context, on func(access.Message)) {
	for wait := firstWait; ctx.Err() == nil; wait = min(2*wait, maxWait) {
		if s.follow(ctx, on) {
			wait = firstWait
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// follow is one subscription. It says whether it came to be.
func (s *Store) follow(ctx context.Context, on func(access.Message)) (began bool) {
	sub := s.client.Subscribe(ctx, s.channel())
	defer func() { _ = sub.Close() }() // whatever it says, the link is over
	defer func() {
		if began {
			on(access.Message{Topic: access.Ended})
		}
	}()
	asked := false
	for {
		in, err := sub.ReceiveTimeout(ctx, silence)
		var slow net.Error
		switch {
		case errors.As(err, &slow) && slow.Timeout() && began && !asked && ctx.Err() == nil:
			asked = true
			if sub.Ping(ctx) != nil {
				return began
			}
			continue
		case err != nil:
			return began
		}
		asked = false
		switch in := in.(type) {
		case *redis.Subscription:
			if began {
				on(access.Message{Topic: access.Ended}) // it was made anew
			}
			began = true
			on(access.Message{Topic: access.Began})
		case *redis.Message:
			topic, body, _ := strings.Cut(in.Payload, " ")
			on(access.Message{Topic: topic, Body: body})
		}
	}
}
