package admin

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/internal/config"
)

const (
	sitekey = "0x4AAAAAAADnPIDROrmt1Wwj"
	secret  = "THE.TOKEN"
)

// atOnce is a solver that needs no service.
type atOnce struct{}

func (atOnce) Solve(ctx context.Context, _ captcha.Task, open captcha.Opener) (captcha.Answer, error) {
	slot, err := open(ctx)
	if err != nil {
		return captcha.Answer{}, err
	}
	slot.Done()
	return captcha.Answer{Token: secret, Issued: time.Now()}, nil
}

func captchaAPI(t *testing.T, s captcha.Service, log *bytes.Buffer, widgets ...config.Captcha) http.Handler {
	t.Helper()
	return captchaAPIOf(t, s, nil, log, widgets...)
}

func captchaAPIOf(t *testing.T, s captcha.Service, learned func(string) []captcha.Ask, log *bytes.Buffer, widgets ...config.Captcha) http.Handler {
	t.Helper()
	o := testOptions(t)
	shop := site(t, "shop", "shop.test", "shop.test")
	shop.Captcha = widgets
	o.Sites = func() []config.Site { return []config.Site{shop} }
	o.Tokens = captcha.New(captcha.Options{Store: captcha.NewMemory(), Service: s})
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	o.Learned = learned
	t.Cleanup(o.Tokens.Close)
	return New(o)
}

func widget(action string) config.Captcha {
	return config.Captcha{Type: "turnstile", SiteKey: sitekey, Action: action, Page: "https://shop.test/", Budget: config.CaptchaBudget{PerHour: 20}}
}

func TestTokensComeAndGo(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	api := captchaAPI(t, captcha.Service{Solver: atOnce{}, Threads: 1}, &log, widget("login"))
	list := func() TokenList {
		t.Helper()
		w := ask(api, "GET", "/api/v1/captcha/shop")
		if strings.Contains(w.Body.String(), secret) {
			t.Errorf("a token is shown: %s", w.Body)
		}
		l := decode[Tokens](t, w)
		if l.Site != "shop" || len(l.Sitekeys) != 1 {
			t.Fatalf("%+v, want the one that is declared", l)
		}
		return l.Sitekeys[0]
	}
	if got, want := list(), (TokenList{Sitekey: sitekey, Action: "login", Type: "turnstile"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	want := TokensChanged{"shop", sitekey, "login", 1}
	if got := decode[TokensChanged](t, ask(api, "POST", "/api/v1/captcha/shop/tokens", body(`{"token":"other.token"}`))); got != want {
		t.Errorf("pushed %+v, want %+v", got, want)
	}
	if got := list(); got.Ready != 1 || time.Until(got.Ends) > captcha.ForeignLife || got.Type != "turnstile" {
		t.Errorf("%+v, want one ready", got)
	}
	if got := decode[TokensChanged](t, ask(api, "DELETE", "/api/v1/captcha/shop/tokens?sitekey="+sitekey+"&action=login")); got != want {
		t.Errorf("flushed %+v, want %+v", got, want)
	}
	if got := decode[TokensChanged](t, ask(api, "POST", "/api/v1/captcha/shop/warm", body(`{"tokens":1}`))); got != want {
		t.Errorf("warmed %+v, want %+v", got, want)
	}
	for began := time.Now(); list().Ready != 1; time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%+v, want what was warmed", list())
		}
	}
	for _, line := range []string{"captcha token pushed", "captcha tokens flushed", "captcha tokens warmed"} {
		if !strings.Contains(log.String(), `msg="`+line+`" by=token site=shop key=shop.test:0x4AAA…1Wwj:login count=1`) {
			t.Errorf("the log lacks %q:\n%s", line, &log)
		}
	}
	if strings.Contains(log.String(), secret) || strings.Contains(log.String(), "other.token") {
		t.Errorf("a token stands in the log:\n%s", &log)
	}
}

// What pages were seen to show needs no declaration, and tells the page of what
// is declared without one.
func TestLearnedSitekeysAreTheSitesToo(t *testing.T) {
	t.Parallel()
	shown := captcha.Ask{Task: captcha.Task{Type: captcha.Turnstile, Site: "shop.test", SiteKey: sitekey, Page: "https://shop.test/login"}, PerHour: 1}
	declared := widget("")
	declared.Page = ""
	for _, tt := range []struct {
		name    string
		widgets []config.Captcha
	}{{"auto", []config.Captcha{{Type: config.CaptchaAuto}}}, {"declared without a page", []config.Captcha{declared}}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			api := captchaAPIOf(t, captcha.Service{Solver: atOnce{}, Threads: 1}, func(site string) []captcha.Ask {
				if site != "shop.test" {
					t.Errorf("it is asked about %s", site)
				}
				return []captcha.Ask{shown}
			}, &log, tt.widgets...)
			if got := decode[Tokens](t, ask(api, "GET", "/api/v1/captcha/shop")).Sitekeys; len(got) != 1 || got[0] != (TokenList{Sitekey: sitekey, Type: "turnstile"}) {
				t.Errorf("%+v", got)
			}
			want := TokensChanged{"shop", sitekey, "", 1}
			if got := decode[TokensChanged](t, ask(api, "POST", "/api/v1/captcha/shop/warm", body(`{"tokens":1}`))); got != want {
				t.Errorf("warmed %+v, want %+v", got, want)
			}
		})
	}
}

func TestCallsAboutTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, method, path, body string
		widgets                  []config.Captcha
		service                  captcha.Service
		status                   int
		code                     string
	}{
		{"an unknown site", "GET", "/api/v1/captcha/other", "", nil, captcha.Service{}, 404, "unknown_site"},
		{"no sitekey, and two are declared", "POST", "/api/v1/captcha/shop/tokens", `{"token":"t"}`, []config.Captcha{widget("a"), widget("b")}, captcha.Service{}, 422, "sitekey"},
		{"no sitekey, and none is declared", "DELETE", "/api/v1/captcha/shop/tokens", "", nil, captcha.Service{}, 422, "sitekey"},
		{"a sitekey that can be none", "POST", "/api/v1/captcha/shop/tokens", `{"sitekey":"}{","token":"t"}`, nil, captcha.Service{}, 422, "sitekey"},
		{"no token", "POST", "/api/v1/captcha/shop/tokens", `{}`, []config.Captcha{widget("")}, captcha.Service{}, 422, "token"},
		{"a token of two words", "POST", "/api/v1/captcha/shop/tokens", `{"token":"THE TOKEN"}`, []config.Captcha{widget("")}, captcha.Service{}, 422, "token"},
		{"a field that nobody knows", "POST", "/api/v1/captcha/shop/tokens", `{"tokn":"t"}`, nil, captcha.Service{}, 400, "body"},
		{"to warm nothing", "POST", "/api/v1/captcha/shop/warm", `{"tokens":0}`, []config.Captcha{widget("")}, captcha.Service{Solver: atOnce{}}, 422, "tokens"},
		{"to warm a fortune", "POST", "/api/v1/captcha/shop/warm", `{"tokens":101}`, []config.Captcha{widget("")}, captcha.Service{Solver: atOnce{}}, 422, "tokens"},
		{"to warm what is not declared", "POST", "/api/v1/captcha/shop/warm", `{"sitekey":"k","tokens":1}`, []config.Captcha{widget("")}, captcha.Service{Solver: atOnce{}}, 422, "undeclared_sitekey"},
		{"to warm without an account", "POST", "/api/v1/captcha/shop/warm", `{"tokens":1}`, []config.Captcha{widget("")}, captcha.Service{}, 422, "not_solved"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			api := captchaAPI(t, tt.service, &log, tt.widgets...)
			w := ask(api, tt.method, tt.path, body(tt.body))
			wantProblem(t, w, tt.status, tt.code)
			if strings.Contains(w.Body.String()+log.String(), "THE TOKEN") {
				t.Errorf("a token is shown: %s %s", w.Body, &log)
			}
		})
	}
}
