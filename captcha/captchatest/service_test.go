package captchatest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const key = "0123456789abcdef0123456789abcdef"

func ask(s *Service, path string, pairs ...string) string {
	v := url.Values{"key": {key}}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	r := httptest.NewRequest(http.MethodGet, path+"?"+v.Encode(), nil)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	body, _ := io.ReadAll(w.Body)
	return strings.TrimSpace(string(body))
}

var turnstile = []string{"method", "turnstile", "sitekey", "0x4AAAAAAADnPIDROrmt1Wwj", "pageurl", "https://shop.test/"}

func with(pairs []string, more ...string) []string {
	return append(append([]string{}, pairs...), more...)
}

// Each contradiction of the vendor's documents can be had either way.
func TestEachSwitchChangesWhatItSays(t *testing.T) {
	gt4 := []string{"method", "geetest_v4", "captcha_id", "c", "pageurl", "https://shop.test/"}
	hcaptcha := with(turnstile, "method", "hcaptcha")
	card := with(turnstile, "proxy", "http:10.0.0.1:3128:u:p", "proxytype", "HTTP", "json", "0")
	usual := with(turnstile, "proxy", "u:p@10.0.0.1:3128", "proxytype", "HTTP", "json", "0")
	small := []string{"method", "base64", "json", "0", "body", "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ" + strings.Repeat("AAAA", 50)}
	const id, params = "OK|70000000", "ERROR_BAD_PARAMETERS"
	for _, tt := range []struct {
		name    string
		o       Options
		pairs   []string
		without string
		set     func(*Switches)
		with    string
	}{
		{"busy", Options{Threads: -1}, with(turnstile, "json", "0"), "ERROR_ZERO_BALANCE", func(s *Switches) { s.NoSlot = true }, "ERROR_NO_SLOT_AVAILABLE"},
		{"the default form", Options{}, turnstile, `{"request":"70000000","status":1}`, func(s *Switches) { s.PlainByDefault = true }, id},
		{"json=1", Options{}, with(turnstile, "json", "1"), `{"request":"70000000","status":1}`, func(s *Switches) { s.AlwaysPlain = true }, id},
		{"the usual proxy", Options{}, usual, id, func(s *Switches) { s.CardProxy = true }, "ERROR_BAD_PROXY"},
		{"the card's proxy", Options{}, card, "ERROR_BAD_PROXY", func(s *Switches) { s.CardProxy = true }, id},
		{"GeeTest v4", Options{}, with(gt4, "json", "0"), params, func(s *Switches) { s.GeeTestV4 = true }, id},
		{"a small image", Options{}, small, "ERROR_ZERO_CAPTCHA_FILESIZE", func(s *Switches) { s.OldImageLimits = true }, id},
		{"hCaptcha", Options{}, with(hcaptcha, "json", "0"), params, func(s *Switches) { s.HCaptcha = true }, id},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Key = key
			if tt.o.Threads == 0 {
				tt.o.Threads = 1
			}
			if got := ask(New(tt.o), "/in.php", tt.pairs...); got != tt.without {
				t.Errorf("%s, want %s", got, tt.without)
			}
			tt.set(&tt.o.Switches)
			if got := ask(New(tt.o), "/in.php", tt.pairs...); got != tt.with {
				t.Errorf("switched: %s, want %s", got, tt.with)
			}
		})
	}
}

func TestWhatOnlyTheProtocolsOriginHas(t *testing.T) {
	instant := func(Task) Outcome { return Outcome{Token: "tok"} }
	for _, origin := range []bool{false, true} {
		s := New(Options{Key: key, Threads: 2, Outcome: instant, Switches: Switches{TwoCaptcha: origin}})
		for range 2 {
			ask(s, "/in.php", turnstile...)
		}
		for _, tt := range []struct {
			pairs      []string
			yes, never string
		}{
			{[]string{"action", "get2", "id", "70000000", "json", "0"}, "OK|tok|0.001", "ERROR_EMPTY_ACTION"},
			{[]string{"action", "get", "ids", "70000000,70000001", "json", "0"}, "OK|tok|tok", "ERROR_WRONG_ID_FORMAT"},
		} {
			want := tt.never
			if origin {
				want = tt.yes
			}
			if got := ask(s, "/res.php", tt.pairs...); got != want {
				t.Errorf("%v, origin %v: %s, want %s", tt.pairs, origin, got, want)
			}
		}
	}
}

func TestThreadsAreHeldUntilATaskIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Key: key, Threads: 2})
		v2 := []string{"method", "userrecaptcha", "googlekey", "6LeIxBcTAAAAAJcZVRqyHh71UMIEGNQ-MXjiZKh1", "pageurl", "https://shop.test/"}
		if got := ask(s, "/in.php", v2...); got != `{"request":70000000,"status":1}` {
			t.Errorf("%s, want an integer ID", got)
		}
		ask(s, "/in.php", turnstile...)
		if got := ask(s, "/in.php", with(turnstile, "json", "0")...); got != "ERROR_ZERO_BALANCE" || s.Refused() != 1 || s.MostOpen() != 2 {
			t.Errorf("%s with %d refused and %d open at once", got, s.Refused(), s.MostOpen())
		}
		if got := ask(s, "/res.php", "action", "get", "id", "70000000", "json", "0"); got != "CAPCHA_NOT_READY" {
			t.Error(got)
		}
		time.Sleep(10 * time.Second)
		if got := ask(s, "/res.php", "action", "get", "id", "70000000", "json", "0"); !strings.HasPrefix(got, "OK|token.") {
			t.Error(got)
		}
		s.SetForeign(2)
		if got := ask(s, "/in.php", with(turnstile, "json", "0")...); got != "ERROR_ZERO_BALANCE" {
			t.Errorf("%s while others hold all threads", got)
		}
	})
}

func TestABadKeyIsBannedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Key: key, Threads: 1})
		for range maxBadKeys {
			if got := ask(s, "/res.php", "key", "short", "json", "0"); got != "ERROR_WRONG_USER_KEY" {
				t.Fatal(got)
			}
		}
		if got := ask(s, "/res.php", "action", "getbalance", "json", "0"); got != "IP_BANNED" {
			t.Error(got)
		}
		time.Sleep(5 * time.Minute)
		if got := ask(s, "/res.php", "action", "getbalance", "json", "0"); got != "0" {
			t.Error(got)
		}
		s.SetThreads(0)
		if got := ask(s, "/in.php", with(turnstile, "json", "0")...); got != "ERROR_KEY_DOES_NOT_EXIST" {
			t.Errorf("%s of an account without threads", got)
		}
	})
}

func TestTooManySubmissionsArePaused(t *testing.T) {
	s := New(Options{Key: key, Threads: 100})
	for range 60 {
		ask(s, "/in.php", turnstile...)
	}
	if got := ask(s, "/in.php", with(turnstile, "json", "0")...); got != "MAX_USER_TURN" {
		t.Error(got)
	}
}
