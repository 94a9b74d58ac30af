package captcha_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
)

func TestAStockIsKeptWhileItsKeyIsNeeded(t *testing.T) {
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		a := login
		a.Stock = 3
		b.pool.Keep([]captcha.Ask{a})
		time.Sleep(time.Hour)
		if n := len(b.service.Tasks()); n != 0 {
			b.Fatalf("%d tasks for a key that nobody needed", n)
		}
		b.get(login) // needed
		b.pool.Keep([]captcha.Ask{a})
		time.Sleep(30 * time.Second)
		b.ready(3)
		if n := b.pool.Ready(); n != 3 {
			b.Errorf("%d ready as metrics have it", n)
		}
		if _, source := b.get(login); source != captcha.FromPool {
			b.Errorf("from %s, want the stock", source)
		}
		time.Sleep(30 * time.Second)
		b.ready(3)
		for range 30 { // old ones are replaced
			time.Sleep(time.Minute)
			s, _ := b.store.Memory.Look(b.Context(), login.Key())
			for began := time.Now(); s.Ready < 3 && time.Since(began) < 15*time.Second; s, _ = b.store.Memory.Look(b.Context(), login.Key()) {
				time.Sleep(time.Second)
			}
			b.ready(3)
		}
		time.Sleep(35 * time.Minute)
		b.ready(0)
		before := len(b.service.Tasks())
		time.Sleep(time.Hour)
		if n := len(b.service.Tasks()); n != before {
			b.Errorf("%d tasks after the need was over", n-before)
		}
		if s := b.records(); s[len(s)-1].Purpose != captcha.ForStock {
			b.Errorf("%+v, want a record of the stock", s[len(s)-1])
		}
	})
}

func TestAStockLeavesThreadsAndBudgetToForms(t *testing.T) {
	onFakeClock(t, captchatest.Options{Threads: 2, Outcome: solvedAfter(20 * time.Second)}, func(b *bench) {
		a := login
		a.Stock, a.PerHour = 10, 4
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { b.get(a) })
		}
		wg.Wait()
		time.Sleep(10 * time.Minute)
		if n := len(b.service.Tasks()); n != 4 || b.service.MostOpen() > 2 || b.service.Refused() != 0 {
			b.Errorf("%d tasks, %d open at once, %d refused; want the budget's 4 on 2 threads", n, b.service.MostOpen(), b.service.Refused())
		}
		if calls := len(b.records()); calls > 30 {
			b.Errorf("%d tries in ten minutes, want a rest after each failure", calls)
		}
	})
}

func TestOneProxyRefills(t *testing.T) {
	onFakeClock(t, captchatest.Options{Threads: 8, Outcome: solvedAfter(25 * time.Second)}, func(b *bench) {
		a := login
		a.Stock = 2
		others := []*captcha.Pool{b.another(), b.another()}
		b.get(a)
		for _, p := range others {
			defer p.Close()
			p.Keep([]captcha.Ask{a})
		}
		time.Sleep(20 * time.Minute)
		if n := b.service.MostOpen(); n != 2 {
			b.Errorf("%d tasks open at once for a stock of 2", n)
		}
		b.pool.Close()
		before := len(b.service.Tasks())
		time.Sleep(10 * time.Minute)
		if n := len(b.service.Tasks()) - before; n < 5 {
			b.Errorf("%d tasks after the one that refilled stopped: nobody follows", n)
		}
	})
}

func TestAPageBeginsASolveWhereItIsLikelyToBeNeeded(t *testing.T) {
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		b.pool.Prefetch(b.Context(), login, time.Now())
		synctest.Wait()
		if n := len(b.service.Calls("")); n != 0 {
			b.Fatalf("%d calls for a key that nobody needed", n)
		}
		b.get(login)
		for range 5 {
			b.pool.Prefetch(b.Context(), login, time.Now())
		}
		time.Sleep(10 * time.Second)
		b.pool.Prefetch(b.Context(), login, time.Now()) // one is ready
		time.Sleep(10 * time.Second)
		b.ready(1)
		if n := len(b.service.Tasks()); n != 2 {
			b.Errorf("%d tasks, want one for the form and one for the page", n)
		}
		if _, source := b.get(login); source != captcha.Prefetched {
			b.Errorf("its token is from %s", source)
		}
		// A form that comes while it is solved gets it, too.
		b.pool.Prefetch(b.Context(), login, time.Now())
		time.Sleep(time.Second)
		if _, source := b.get(login); source != captcha.Prefetched {
			b.Errorf("its token is from %s", source)
		}
		// And a page whose form was quicker needs none.
		shown := time.Now()
		time.Sleep(time.Millisecond)
		b.get(login)
		before := len(b.service.Tasks())
		b.pool.Prefetch(b.Context(), login, shown)
		time.Sleep(time.Minute)
		if n := len(b.service.Tasks()); n != before {
			b.Error("a solve was begun for a page whose form has come")
		}
	})
}

func TestWarmedTokensAreListedAndFlushed(t *testing.T) {
	onFakeClock(t, captchatest.Options{Outcome: solvedAfter(30 * time.Second)}, func(b *bench) {
		if err := b.pool.Warm(login, 3); err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Second)
		list := func() captcha.Status {
			all, spent, err := b.pool.List(b.Context(), "shop.test")
			if err != nil || len(all) != 1 || spent != 3 {
				b.Fatalf("%+v, %d spent, %v", all, spent, err)
			}
			return all[0]
		}
		if s := list(); s.Solving != 3 || s.Ready != 0 || s.Type != captcha.RecaptchaV3 || s.Key != login.Key() {
			b.Errorf("%+v while 3 are solved", s)
		}
		time.Sleep(40 * time.Second)
		if s := list(); s.Solving != 0 || s.Ready != 3 || time.Until(s.Ends) < 30*time.Second {
			b.Errorf("%+v, want 3 ready", s)
		}
		if n, err := b.pool.Flush(b.Context(), login.Key()); n != 3 || err != nil {
			b.Errorf("%d flushed, %v", n, err)
		}
		if s := list(); s.Ready != 0 {
			b.Errorf("%+v after the flush", s)
		}
	})
}

// While the store is away tokens come from this proxy alone, within its share,
// and go to the store when it is back.
func TestWithoutItsStoreAProxyKeepsToItsShare(t *testing.T) {
	onFakeClock(t, captchatest.Options{Threads: 4, Outcome: solvedAfter(20 * time.Second)}, func(b *bench) {
		other := captcha.New(captcha.Options{Store: b.store, Service: captcha.Service{Solver: never{}, Threads: 4}})
		defer other.Close()
		b.get(login)
		b.store.away.Store(true)

		a := login
		a.PerHour = 8
		served := 0
		var mu sync.Mutex
		var wg sync.WaitGroup
		before := len(b.service.Tasks())
		for range 6 {
			wg.Go(func() {
				_, _, err := b.pool.Get(b.Context(), a)
				var over *captcha.BudgetError
				if err != nil && !errors.As(err, &over) {
					b.Error(err)
				}
				if err == nil {
					mu.Lock()
					served++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if served != 4 || len(b.service.Tasks())-before != 4 || b.service.MostOpen() != 2 {
			b.Errorf("%d served by %d tasks, %d open at once; want half of the budget of 8 on half of 4 threads",
				served, len(b.service.Tasks())-before, b.service.MostOpen())
		}

		if err := b.pool.Push(b.Context(), login.Key(), "kept.here"); err != nil {
			b.Fatal(err)
		}
		b.ready(0)
		b.store.away.Store(false)
		time.Sleep(10 * time.Second)
		b.ready(1)
		if got, _ := b.get(login); got.Value != "kept.here" {
			b.Errorf("%q, want what was kept here", got.Value)
		}
	})
}

// While the store is away a free thread waits for nobody's answer.
func TestWithoutItsStoreAFreeThreadIsGivenAtOnce(t *testing.T) {
	onFakeClock(t, captchatest.Options{Threads: 1, Outcome: solvedAfter(time.Second)}, func(b *bench) {
		began := time.Now()
		b.get(login)
		usual := time.Since(began)
		time.Sleep(time.Second) // its thread is given back
		b.store.away.Store(true)
		b.get(login) // the outage is known now
		began = time.Now()
		b.get(login)
		if took := time.Since(began); took > usual+time.Second {
			b.Errorf("a solve took %v in the outage, and %v before", took, usual)
		}
	})
}

// A store that is away is tried once a second, not by every request.
func TestAStoreThatIsAwayIsLeftAlone(t *testing.T) {
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		b.store.away.Store(true)
		_ = b.pool.Push(b.Context(), login.Key(), "first")
		before := b.store.calls.Load()
		a := login
		a.MaxWait = time.Millisecond
		for range 50 {
			if _, _, err := b.pool.Get(b.Context(), a); err != nil && !errors.Is(err, captcha.ErrMaxWait) {
				b.Error(err)
			}
			synctest.Wait()
		}
		if n := b.store.calls.Load() - before; n > 3 {
			b.Errorf("%d calls of a store that is away", n)
		}
	})
}

// A reload changes who solves; what was begun ends as it began.
func TestAnotherServiceTakesOver(t *testing.T) {
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		b.pool.Use(captcha.Service{})
		if _, _, err := b.pool.Get(b.Context(), login); !errors.Is(err, captcha.ErrNoSolver) {
			b.Errorf("%v, want ErrNoSolver", err)
		}
		b.pool.Use(captcha.Service{Solver: b.client, Threads: 1})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { b.get(login) })
		}
		time.Sleep(2 * time.Second)
		b.pool.Use(captcha.Service{Solver: never{}, Threads: 2})
		wg.Wait()
		if n := len(b.service.Tasks()); n != 3 {
			b.Errorf("%d tasks, want the 3 that were begun", n)
		}
	})
}

func TestKeysForTestsHaveNoStock(t *testing.T) {
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		a := login
		a.SiteKey, a.Type, a.Stock = "1x00000000000000000000AA", captcha.Turnstile, 3
		b.pool.Keep([]captcha.Ask{a})
		b.get(a)
		if err := b.pool.Warm(a, 1); err == nil {
			b.Error("a key for tests was warmed")
		}
		b.pool.Prefetch(b.Context(), a, time.Now())
		time.Sleep(time.Minute)
		if n := len(b.service.Calls("")); n != 0 {
			b.Errorf("%d calls for a key that is published for tests", n)
		}
	})
}
