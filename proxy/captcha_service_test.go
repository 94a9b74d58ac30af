package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/captchaai"
	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

// From a page with Turnstile in reCAPTCHA's place, through the service, to the
// site's verifier.
func TestAFormIsSolvedByTheService(t *testing.T) {
	t.Parallel()
	const key = "0123456789abcdef0123456789abcdef"
	v := captchatest.NewVerifier(widgets...)
	service := captchatest.New(captchatest.Options{Key: key, Threads: 2, Verifier: v, Outcome: func(captchatest.Task) captchatest.Outcome {
		return captchatest.Outcome{After: time.Second}
	}})
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	client, err := captchaai.New(captchaai.Options{Key: key, URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	pool := captcha.New(captcha.Options{Store: captcha.NewMemory(), Service: captcha.Service{Solver: client, Threads: 2}})
	t.Cleanup(pool.Close)
	verdict := make(chan captchatest.Verdict, 1)
	w := world.New(t, world.Options{
		Tokens: pool,
		Config: func(c *config.Config) {
			c.Sites[0].Captcha = []config.Captcha{{Type: config.CaptchaAuto, Method: http.MethodPost, Budget: config.CaptchaBudget{PerHour: 2}}}
		},
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				verdict <- v.Check("s-turnstile", r.PostFormValue("g-recaptcha-response"))
				return
			}
			rw.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(rw, `<script src="https://challenges.cloudflare.com/turnstile/v0/api.js?compat=recaptcha"></script>
<form method=post><div class=g-recaptcha data-sitekey=0xTurnstile data-action=signup></div></form>`)
		}),
	})
	w.Get(t, world.TunnelH1, "/signup")
	resp, err := w.Client(world.TunnelH1).Do(world.Request(t, http.MethodPost, world.TunnelH1.URL("/signup"), strings.NewReader("g-recaptcha-response="),
		"Content-Type", urlencoded, "Referer", world.TunnelH1.URL("/signup")))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	if got := <-verdict; !got.Success || got.Action != "signup" {
		t.Errorf("the site's verifier says %+v", got)
	}
	tasks := service.Tasks()
	if len(tasks) != 1 || tasks[0].Method != "turnstile" || tasks[0].Params.Get("pageurl") != "https://shop.test/signup" || tasks[0].Params.Get("action") != "signup" {
		t.Errorf("the service was asked %+v", tasks)
	}
}
