package captchaai

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
)

const (
	testKey = "0123456789abcdef0123456789abcdef"
	siteKey = "6LeIxBcTAAAAAJcZVRqyHh71UMIEGNQ-MXjiZKh1"
	page    = "https://shop.test/login"
)

var (
	v2        = captcha.Task{Type: captcha.RecaptchaV2, Site: "shop.test", SiteKey: siteKey, Page: page}
	v3        = captcha.Task{Type: captcha.RecaptchaV3, Site: "shop.test", SiteKey: siteKey, Page: page, Action: "login"}
	turnstile = captcha.Task{Type: captcha.Turnstile, Site: "shop.test", SiteKey: "0x4AAAAAAADnPIDROrmt1Wwj", Page: page}
)

// bench is a client and the service it asks, on a fake clock.
type bench struct {
	*testing.T
	service *captchatest.Service
	client  *Client
	log     bytes.Buffer
	start   time.Time
	slots   slots
}

// onFakeClock runs f in a bubble where time passes when all wait.
func onFakeClock(t *testing.T, o captchatest.Options, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if o.Key == "" {
			o.Key = testKey
		}
		if o.Threads == 0 {
			o.Threads = 5
		}
		b := &bench{T: t, service: captchatest.New(o), start: time.Now()}
		pipe := captchatest.NewPipe(b.service)
		defer pipe.Close()
		b.client = b.newClient(Options{Dial: pipe.Dial})
		defer b.client.Close()
		f(b)
	})
}

func (b *bench) newClient(o Options) *Client {
	b.Helper()
	if o.Key == "" {
		o.Key = testKey
	}
	if o.URL == "" {
		o.URL = "http://solver.test"
	}
	o.Log = slog.New(slog.NewTextHandler(&b.log, nil))
	c, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func (b *bench) took() time.Duration { return time.Since(b.start) }

func (b *bench) calls(path string) int { return len(b.service.Calls(path)) }

// slots is an opener that counts how slots end.
type slots struct {
	mu                                sync.Mutex
	opened, busy, done, refused, held int
	heldUntil                         time.Time
}

func (s *slots) open(context.Context) (captcha.Slot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	return (*slot)(s), nil
}

type slot slots

func (s *slot) count(n *int) { s.mu.Lock(); defer s.mu.Unlock(); *n++ }
func (s *slot) Busy()        { s.count(&s.busy) }
func (s *slot) Done()        { s.count(&s.done) }
func (s *slot) Refused()     { s.count(&s.refused) }
func (s *slot) Hold(until time.Time) {
	s.count(&s.held)
	s.heldUntil = until
}

// balanced says that every slot ended once.
func (b *bench) balanced() {
	b.Helper()
	if s := &b.slots; s.opened != s.done+s.refused+s.held {
		b.Errorf("%d slots were opened; %d done, %d refused, %d held", s.opened, s.done, s.refused, s.held)
	}
}

func repeat(n int, f captchatest.Fault) []captchatest.Fault {
	var all []captchatest.Fault
	for range n {
		all = append(all, f)
	}
	return all
}
