package proxy_test

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/loginsites"
	"github.com/sessionproxy/sessionproxy/internal/world"
	logins "github.com/sessionproxy/sessionproxy/proxy/login"
)

// guarded is a site whose login form has a widget, and whose login wants its
// token.
func guarded(site *loginsites.Site, v *captchatest.Verifier) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/login" && !v.Check("s-v2", r.PostFormValue("g-recaptcha-response")).Success {
			http.Error(w, "Please sign in, and show that you are no robot", http.StatusForbidden)
			return
		}
		answer := httptest.NewRecorder()
		site.ServeHTTP(answer, r)
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write([]byte(strings.Replace(answer.Body.String(), "</form>", `<div class="g-recaptcha" data-sitekey="6Lv2"></div></form>`, 1)))
	})
}

func captchaWorld(t *testing.T, site *loginsites.Site, s *solver, rules *config.Login) *world.World {
	t.Helper()
	pool := captcha.New(captcha.Options{Store: captcha.NewMemory(), Service: captcha.Service{Solver: s, Threads: 5}})
	t.Cleanup(pool.Close)
	return loginWorld(t, site, rules, func(o *world.Options) {
		declare := o.Config
		o.Handler, o.Tokens, o.Locks = guarded(site, s.verifier), pool, new(logins.Memory)
		o.Config = func(c *config.Config) {
			declare(c)
			c.Sites[0].Captcha = []config.Captcha{{Type: config.CaptchaAuto, Method: http.MethodPost, When: config.WhenEmpty, Budget: config.CaptchaBudget{PerHour: 5}}}
		}
	})
}

// The recipe's form has a captcha: one token is solved for it, for the page that
// the recipe has read, and whoever asks is logged in.
func TestARecipeGetsItsCaptchaToken(t *testing.T) {
	t.Parallel()
	site := loginsites.New(loginsites.Options{})
	s := &solver{verifier: captchatest.NewVerifier(widgets...)}
	w := captchaWorld(t, site, s, withRecipe(loginRules()))
	proxies := []*world.Proxy{w.Proxy, w.AddProxy(), w.AddProxy()}
	each(30, func(i int) { askHello(t, proxies[i%3], mostlyH2(i)) })
	if site.Attempts() != 1 {
		t.Errorf("%d logins reached the site, want one", site.Attempts())
	}
	if tasks := s.seen(); len(tasks) != 1 || tasks[0].SiteKey != "6Lv2" || tasks[0].Page != "https://shop.test/login" {
		t.Errorf("the solver was asked %+v, want one token for the login's page", tasks)
	}
	world.Eventually(t, "one line of audit", func() bool {
		lines := 0
		for _, p := range proxies {
			lines += p.Audit.Count("captcha_fill", "by", "recipe", "outcome", "done")
		}
		return lines == 1
	})
}

// Without a token nothing is sent, and the login is not counted as refused.
func TestARecipeWithoutATokenSendsNothing(t *testing.T) {
	t.Parallel()
	site := loginsites.New(loginsites.Options{})
	s := &solver{verifier: captchatest.NewVerifier(widgets...), err: errors.New("no worker is free")}
	w := captchaWorld(t, site, s, withRecipe(loginRules()))
	for range 6 { // as often as would let it rest for a day
		if _, err := w.LogIn(t.Context(), shopKey); err == nil || !strings.Contains(err.Error(), "captcha token") {
			t.Fatalf("by hand: %v", err)
		}
	}
	if failed := w.LoginStatus(t.Context(), shopKey).Failed; failed == nil || failed.Failures != 0 || time.Until(failed.Until) > 10*time.Minute {
		t.Errorf("status %+v, want no failure, and a short rest", failed)
	}
	if site.Attempts() != 0 || s.verifier.Asked() != 0 {
		t.Errorf("%d logins, %d tokens reached the site", site.Attempts(), s.verifier.Asked())
	}
}

// What keeps a recipe from the site's judgement is no refusal: no address that
// answers, a site that is broken, one that is busy.
func TestAHinderedRecipeIsNotRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		rest   time.Duration // after some of them
	}{
		{"the connection breaks", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, time.Minute},
		{"the site is broken", func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, time.Minute},
		{"the site is busy", func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }, time.Minute},
		{"the site says for how long it is busy", func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1200")
			w.WriteHeader(http.StatusTooManyRequests)
		}, 20 * time.Minute},
		{"the site is busy for ever", func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "2000000000")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, time.Hour},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(tt.name+" on "+method, func(t *testing.T) {
				t.Parallel()
				site := loginsites.New(loginsites.Options{})
				w := loginWorld(t, site, withRecipe(loginRules()), func(o *world.Options) {
					o.Handler = handler(func(rw http.ResponseWriter, r *http.Request) {
						if r.Method == method && r.URL.Path == "/login" {
							tt.answer(rw)
							return
						}
						site.ServeHTTP(rw, r)
					})
				})
				for range 6 {
					if _, err := w.LogIn(t.Context(), shopKey); err == nil {
						t.Fatal("it has logged in")
					}
				}
				if failed := w.LoginStatus(t.Context(), shopKey).Failed; failed == nil || failed.Failures != 0 || (time.Until(failed.Until)-tt.rest).Abs() > 10*time.Second {
					t.Errorf("status %+v, want no failure, and a rest of %v", failed, tt.rest)
				}
			})
		}
	}
}
