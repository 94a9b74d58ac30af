// Package storetest is the contract of captcha.Store as one suite of tests,
// which each store runs on itself. What only one of them can do, such as
// sharing its lists with other programs, its own tests show.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
)

// World is an empty store as two proxies see it.
type World struct {
	A, B captcha.Store         // may be one
	Age  func(d time.Duration) // lets that time pass for the store
}

// Run runs the suite. The harness makes a world for each case and calls f.
func Run(t *testing.T, harness func(t *testing.T, f func(t *testing.T, w World))) {
	for _, c := range []struct {
		name string
		f    func(t *testing.T, w World)
	}{
		{"tokens come out in order and once", once},
		{"a token that came out does not go in again", spent},
		{"a token that was not used goes back to the front", returned},
		{"a token that was prefetched is known for it", prefetched},
		{"an old token does not come out", old},
		{"the oldest make room", full},
		{"what is no token does not go in", invalid},
		{"keys are apart", apart},
		{"a key that was asked for is needed for an hour", needed},
		{"flushed tokens are gone", flushed},
		{"many who ask at once get one each", crowd},
		{"a budget is an hour's", budget},
		{"one proxy refills at a time", refill},
		{"threads are bounded, whoever asks", bounded},
		{"threads go to those who wait longest", inOrder},
		{"threads of a silent proxy come back", silent},
		{"a place of a silent proxy is lost", silentWaiter},
		{"a place that is given up is free", leaves},
		{"a grant whose answer was lost is told again", lostAnswer},
		{"a thread that is in use counts, though the store forgot it", renewed},
	} {
		t.Run(c.name, func(t *testing.T) { harness(t, c.f) })
	}
}

var (
	login = captcha.Key{Site: "shop.test", SiteKey: "6LeIxBcTAAAAAJcZVRqyHh71UMIEGNQ-MXjiZKh1", Action: "login"}
	plain = captcha.Key{Site: "shop.test", SiteKey: "6LeIxBcTAAAAAJcZVRqyHh71UMIEGNQ-MXjiZKh1"}
	other = captcha.Key{Site: "[::1]:8443", SiteKey: "6LeIxBcTAAAAAJcZVRqyHh71UMIEGNQ-MXjiZKh1", Action: "login"}
)

func token(value string, life time.Duration) captcha.Token {
	return captcha.Token{Value: value, Expires: time.Now().Add(life)}
}

func push(t *testing.T, s captcha.Store, k captcha.Key, tokens ...captcha.Token) {
	t.Helper()
	for _, tok := range tokens {
		if err := s.Push(t.Context(), k, tok); err != nil {
			t.Fatalf("push %s: %v", tok.Value, err)
		}
	}
}

// pop returns a token's value, "" for none.
func pop(t *testing.T, s captcha.Store, k captcha.Key) string {
	t.Helper()
	tok, err := s.Pop(t.Context(), k)
	if errors.Is(err, captcha.ErrEmpty) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return tok.Value
}

func wantPops(t *testing.T, s captcha.Store, k captcha.Key, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := pop(t, s, k); got != w {
			t.Fatalf("token %q came out, want %q", got, w)
		}
	}
}

func look(t *testing.T, s captcha.Store, k captcha.Key) captcha.State {
	t.Helper()
	state, err := s.Look(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func once(t *testing.T, w World) {
	push(t, w.A, login, token("a", time.Minute), token("b|x", time.Minute), token("c", time.Minute), token("a", time.Minute))
	wantPops(t, w.B, login, "b|x", "c")
	wantPops(t, w.A, login, "a", "")
	tok, err := w.A.Pop(t.Context(), login)
	if !errors.Is(err, captcha.ErrEmpty) || tok.Value != "" {
		t.Errorf("%+v, %v; want ErrEmpty", tok, err)
	}
	push(t, w.A, login, token("d", time.Minute))
	tok, err = w.B.Pop(t.Context(), login)
	if left := time.Until(tok.Expires); err != nil || left < 50*time.Second || left > time.Minute {
		t.Errorf("%v to live, %v; want a minute", left, err)
	}
}

func spent(t *testing.T, w World) {
	push(t, w.A, login, token("a", time.Minute))
	wantPops(t, w.A, login, "a")
	if err := w.B.Push(t.Context(), login, token("a", time.Minute)); !errors.Is(err, captcha.ErrSpent) {
		t.Errorf("%v, want ErrSpent", err)
	}
	wantPops(t, w.A, login, "")
	w.Age(captcha.SpentTime + time.Second)
	push(t, w.B, login, token("a", time.Minute))
	wantPops(t, w.A, login, "a")
}

func prefetched(t *testing.T, w World) {
	early := token("early", time.Minute)
	early.Prefetched = true
	push(t, w.A, login, early, token("late", time.Minute))
	for _, want := range []captcha.Token{early, token("late", 0)} {
		got, err := w.B.Pop(t.Context(), login)
		if err != nil || got.Value != want.Value || got.Prefetched != want.Prefetched {
			t.Fatalf("%+v, %v; want %s, prefetched %v", got, err, want.Value, want.Prefetched)
		}
		if err := w.B.Return(t.Context(), login, got); err != nil {
			t.Fatal(err)
		}
		if got, err := w.A.Pop(t.Context(), login); err != nil || got.Value != want.Value || got.Prefetched != want.Prefetched {
			t.Errorf("returned, it is %+v, %v", got, err)
		}
	}
}

func returned(t *testing.T, w World) {
	push(t, w.A, login, token("a", time.Minute), token("b", time.Minute))
	a, err := w.A.Pop(t.Context(), login)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.B.Return(t.Context(), login, a); err != nil {
		t.Fatal(err)
	}
	wantPops(t, w.A, login, "a", "b", "")
}

func old(t *testing.T, w World) {
	push(t, w.A, login, token("short", 10*time.Second), token("long", time.Minute))
	w.Age(11 * time.Second)
	if s := look(t, w.A, login); s.Ready != 1 {
		t.Errorf("%d ready, want the one that is left", s.Ready)
	}
	wantPops(t, w.A, login, "long", "")
	push(t, w.A, login, token("next", 10*time.Second))
	w.Age(11 * time.Second)
	wantPops(t, w.A, login, "")
	push(t, w.A, login, token("past", -time.Second))
	wantPops(t, w.A, login, "")
}

func full(t *testing.T, w World) {
	for i := range captcha.MaxReady + 3 {
		push(t, w.A, login, token(fmt.Sprint("t", i), time.Minute))
	}
	if s := look(t, w.A, login); s.Ready != captcha.MaxReady {
		t.Errorf("%d ready, want %d", s.Ready, captcha.MaxReady)
	}
	wantPops(t, w.A, login, "t3")
}

func invalid(t *testing.T, w World) {
	for _, v := range []string{"", "two\nlines", "a b"} {
		if err := w.A.Push(t.Context(), login, token(v, time.Minute)); err == nil {
			t.Errorf("%q went in", v)
		}
	}
	wantPops(t, w.A, login, "")
}

func apart(t *testing.T, w World) {
	push(t, w.A, login, token("login", time.Minute))
	push(t, w.A, plain, token("plain", time.Minute))
	push(t, w.A, other, token("other", time.Minute))
	for site, want := range map[string][]captcha.Key{"shop.test": {plain, login}, "[::1]:8443": {other}, "shop": nil, "*": nil} {
		got, err := w.B.Keys(t.Context(), site)
		slices.SortFunc(got, func(a, b captcha.Key) int { return len(a.Action) - len(b.Action) })
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("keys of %s: %v, %v; want %v", site, got, err, want)
		}
	}
	wantPops(t, w.B, plain, "plain", "")
	wantPops(t, w.B, other, "other", "")
	wantPops(t, w.B, login, "login", "")
}

func needed(t *testing.T, w World) {
	push(t, w.A, login, token("a", time.Minute))
	if s := look(t, w.A, login); s.Needed || s.Ready != 1 || s.Key != login || time.Until(s.Ends) > time.Minute || time.Until(s.Ends) < 50*time.Second {
		t.Errorf("%+v, want one ready for a minute and no need", s)
	}
	wantPops(t, w.A, login, "a")
	w.Age(captcha.NeedTime - time.Minute)
	if s := look(t, w.B, login); !s.Needed || s.Ready != 0 || !s.Ends.IsZero() {
		t.Errorf("%+v, want a need and nothing ready", s)
	}
	w.Age(time.Minute)
	if look(t, w.B, login).Needed {
		t.Error("needed after an hour")
	}
}

func flushed(t *testing.T, w World) {
	push(t, w.A, login, token("a", time.Minute), token("b", time.Minute))
	if n, err := w.B.Flush(t.Context(), login); n != 2 || err != nil {
		t.Errorf("%d flushed, %v; want 2", n, err)
	}
	wantPops(t, w.A, login, "")
}

func crowd(t *testing.T, w World) {
	const tokens, askers = 60, 8
	for i := range tokens {
		push(t, w.A, login, token(fmt.Sprint("t", i), time.Minute))
	}
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for i := range askers {
		wg.Go(func() {
			for {
				tok, err := []captcha.Store{w.A, w.B}[i%2].Pop(context.WithoutCancel(t.Context()), login)
				if err != nil {
					return
				}
				mu.Lock()
				seen[tok.Value]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for v, n := range seen {
		if n != 1 {
			t.Errorf("%s came out %d times", v, n)
		}
	}
	if len(seen) != tokens {
		t.Errorf("%d tokens came out, want %d", len(seen), tokens)
	}
}

func budget(t *testing.T, w World) {
	for i := range 3 {
		if n, err := []captcha.Store{w.A, w.B}[i%2].Spend(t.Context(), "shop.test", 3); n != i+1 || err != nil {
			t.Fatalf("spend %d: %d, %v", i+1, n, err)
		}
	}
	_, err := w.B.Spend(t.Context(), "shop.test", 3)
	var over *captcha.BudgetError
	if !errors.As(err, &over) || over.PerHour != 3 || over.Again <= 0 || over.Again > time.Hour {
		t.Fatalf("%v, want a budget that is used up", err)
	}
	if n, err := w.A.Spend(t.Context(), "[::1]:8443", 1); n != 1 || err != nil {
		t.Errorf("another site: %d, %v", n, err)
	}
	if err := w.A.Refund(t.Context(), "shop.test"); err != nil {
		t.Fatal(err)
	}
	if n, err := w.B.Spent(t.Context(), "shop.test"); n != 2 || err != nil {
		t.Errorf("%d spent, %v; want 2", n, err)
	}
	if _, err := w.A.Spend(t.Context(), "shop.test", 3); err != nil {
		t.Errorf("what was given back: %v", err)
	}
	w.Age(time.Hour)
	if n, err := w.A.Spent(t.Context(), "shop.test"); n != 0 || err != nil {
		t.Errorf("after an hour %d are spent, %v", n, err)
	}
	if err := w.A.Refund(t.Context(), "shop.test"); err != nil {
		t.Fatal(err)
	}
	if n, err := w.A.Spend(t.Context(), "shop.test", 3); n != 1 || err != nil {
		t.Errorf("the next hour begins with %d, %v", n, err)
	}
	if _, err := w.A.Spend(t.Context(), "none.test", 0); !errors.As(err, &over) {
		t.Errorf("a budget of none: %v", err)
	}
}

func refill(t *testing.T, w World) {
	try := func(s captcha.Store, proxy string) bool {
		t.Helper()
		ok, err := s.Refill(t.Context(), login, proxy, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if !try(w.A, "a") || try(w.B, "b") || !try(w.A, "a") {
		t.Error("two proxies refill at once, or one may not go on")
	}
	w.Age(11 * time.Second)
	if !try(w.B, "b") || try(w.A, "a") {
		t.Error("the second may not follow")
	}
}
