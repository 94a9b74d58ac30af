package captcha_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/captchaai"
	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
)

const (
	siteKey = "6LeIxBcTAAAAAJcZVRqyHh71UMIEGNQ-MXjiZKh1"
	apiKey  = "0123456789abcdef0123456789abcdef"
)

var login = captcha.Ask{
	Task:    captcha.Task{Type: captcha.RecaptchaV3, Site: "shop.test", SiteKey: siteKey, Action: "login", Page: "https://shop.test/login"},
	PerHour: 1000, MaxWait: 90 * time.Second,
}

// bench is a pool, the client that it solves with, and the service that this asks.
type bench struct {
	*testing.T
	service *captchatest.Service
	store   *outage
	client  *captchaai.Client
	pool    *captcha.Pool
	start   time.Time

	mu     sync.Mutex
	solves []captcha.Solve
}

// outage is a store that may be away.
type outage struct {
	*captcha.Memory
	away  atomic.Bool
	calls atomic.Int64
}

var errAway = errors.New("connection refused")

func (o *outage) err() error {
	o.calls.Add(1)
	if o.away.Load() {
		return errAway
	}
	return nil
}

func (o *outage) Pop(ctx context.Context, k captcha.Key) (captcha.Token, error) {
	if err := o.err(); err != nil {
		return captcha.Token{}, err
	}
	return o.Memory.Pop(ctx, k)
}

func (o *outage) Push(ctx context.Context, k captcha.Key, t captcha.Token) error {
	return errors.Join(o.err(), o.pushed(ctx, k, t))
}

func (o *outage) pushed(ctx context.Context, k captcha.Key, t captcha.Token) error {
	if o.away.Load() {
		return nil
	}
	return o.Memory.Push(ctx, k, t)
}

func (o *outage) Look(ctx context.Context, k captcha.Key) (captcha.State, error) {
	if err := o.err(); err != nil {
		return captcha.State{}, err
	}
	return o.Memory.Look(ctx, k)
}

func (o *outage) Spend(ctx context.Context, site string, n int) (int, error) {
	if err := o.err(); err != nil {
		return 0, err
	}
	return o.Memory.Spend(ctx, site, n)
}

func (o *outage) Threads(ctx context.Context, c captcha.Claim) (captcha.Grant, error) {
	if err := o.err(); err != nil {
		return captcha.Grant{}, err
	}
	return o.Memory.Threads(ctx, c)
}

func solvedAfter(d time.Duration) func(captchatest.Task) captchatest.Outcome {
	return func(captchatest.Task) captchatest.Outcome { return captchatest.Outcome{After: d} }
}

func onFakeClock(t *testing.T, o captchatest.Options, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Key = apiKey
		if o.Threads == 0 {
			o.Threads = 5
		}
		if o.Outcome == nil {
			o.Outcome = solvedAfter(4 * time.Second)
		}
		b := &bench{T: t, service: captchatest.New(o), store: &outage{Memory: captcha.NewMemory()}, start: time.Now()}
		pipe := captchatest.NewPipe(b.service)
		defer pipe.Close()
		client, err := captchaai.New(captchaai.Options{Key: apiKey, URL: "http://solver.test", Dial: pipe.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		b.client = client
		b.pool = b.another()
		defer b.pool.Close()
		f(b)
	})
}

// another makes a pool, as another proxy of the same store has one.
func (b *bench) another() *captcha.Pool {
	return captcha.New(captcha.Options{
		Store: b.store,
		Service: captcha.Service{Solver: b.client, Plan: func(ctx context.Context) (int, error) {
			n, err := b.client.ThreadsInfo(ctx)
			return n.Total, err
		}},
		Solved: func(s captcha.Solve) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.solves = append(b.solves, s)
		},
	})
}

// records are those of the solves that ended.
func (b *bench) records() []captcha.Solve {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.solves)
}

func (b *bench) took() time.Duration { return time.Since(b.start) }

func (b *bench) get(a captcha.Ask) (captcha.Token, captcha.Source) {
	b.Helper()
	t, source, err := b.pool.Get(b.Context(), a)
	if err != nil {
		b.Fatal(err)
	}
	return t, source
}

func (b *bench) ready(want int) {
	b.Helper()
	if s, err := b.store.Memory.Look(b.Context(), login.Key()); err != nil || s.Ready != want {
		b.Errorf("%d tokens ready, %v; want %d", s.Ready, err, want)
	}
}

// never is a solver whose tasks don't end before it is told so.
type never struct{}

func (never) Solve(ctx context.Context, _ captcha.Task, open captcha.Opener) (captcha.Answer, error) {
	s, err := open(ctx)
	if err != nil {
		return captcha.Answer{}, err
	}
	<-ctx.Done()
	s.Hold(time.Now().Add(time.Minute))
	return captcha.Answer{}, context.Cause(ctx)
}
