package captchaai

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
)

const (
	in  = "/in.php"
	out = "/res.php"
)

// each row is one of the service's documented errors: what a client does when
// it meets it n times, and then no more.
func TestEachErrorIsMetAsDocumented(t *testing.T) {
	for _, tt := range []struct {
		code        string
		at          string
		times       int
		want        Class // "": solved
		submissions int   // to the end
		atLeast     time.Duration
		log         string
	}{
		{"CAPCHA_NOT_READY", out, 3, "", 1, 30 * time.Second, ""},
		{"CAPTCHA_NOT_READY", out, 1, "", 1, 20 * time.Second, ""},
		{"ERROR_WRONG_USER_KEY", in, 9, BadKey, 1, 0, "left alone"},
		{"ERROR_WRONG_USER_KEY", out, 9, BadKey, 1, 0, "left alone"},
		{"ERROR_KEY_DOES_NOT_EXIST", in, 9, BadKey, 1, 0, "left alone"},
		{"ERROR_IP_NOT_ALLOWED", in, 9, BadKey, 1, 0, "left alone"},
		{"IP_BANNED", in, 9, Banned, 1, 0, "left alone"},
		{"ERROR_IP_BANNED", out, 9, Banned, 1, 0, "left alone"},
		{"ERROR_ZERO_BALANCE", in, 1, "", 2, 20 * time.Second, ""},
		{"ERROR_ZERO_BALANCE", in, 9, NoThreads, 5, 65 * time.Second, "left alone"},
		{"ERROR_NO_SLOT_AVAILABLE", in, 3, "", 4, 35 * time.Second, ""},
		{"ERROR_NO_SLOT_AVAILABLE", in, 9, NoThreads, 5, 65 * time.Second, "left alone"},
		{"ERROR_TOO_MUCH_REQUESTS", in, 1, "", 2, 20 * time.Second, ""},
		{"ERROR_TOO_MUCH_REQUESTS", out, 1, "", 1, 20 * time.Second, ""},
		{"MAX_USER_TURN", in, 1, "", 2, 25 * time.Second, ""},
		{"ERROR_PAGEURL", in, 9, BadTask, 1, 0, ""},
		{"ERROR_GOOGLEKEY", in, 9, BadTask, 1, 0, ""},
		{"ERROR_WRONG_GOOGLEKEY", in, 9, BadTask, 1, 0, ""},
		{"ERROR_BAD_TOKEN_OR_PAGEURL", in, 9, BadTask, 1, 0, ""},
		{"ERROR_BAD_TOKEN_OR_PAGEURL", out, 9, BadTask, 1, 0, ""},
		{"ERROR_DOMAIN_NOT_ALLOWED", in, 9, BadTask, 1, 0, ""},
		{"ERROR_BAD_PARAMETERS", in, 9, BadTask, 1, 0, ""},
		{"ERROR_BAD_PROXY", in, 9, BadProxy, 1, 0, ""},
		{"ERROR_PROXY_CONNECTION_FAILED", out, 1, "", 2, 0, ""},
		{"ERROR_PROXY_CONNECTION_FAILED", out, 9, BadProxy, 2, 0, ""},
		{"ERROR_TOO_BIG_CAPTCHA_FILESIZE", in, 9, BadTask, 1, 0, ""},
		{"ERROR_ZERO_CAPTCHA_FILESIZE", in, 9, BadTask, 1, 0, ""},
		{"ERROR_WRONG_FILE_EXTENSION", in, 9, BadTask, 1, 0, ""},
		{"ERROR_IMAGE_TYPE_NOT_SUPPORTED", in, 9, BadTask, 1, 0, ""},
		{"ERROR_UPLOAD", in, 9, BadTask, 1, 0, ""},
		{"ERROR_EMPTY_CAPTCHA", in, 9, BadTask, 1, 0, ""},
		{"ERROR_CAPTCHAIMAGE_BLOCKED", in, 9, BadTask, 1, 0, ""},
		{"ERROR_CAPTCHA_UNSOLVABLE", out, 2, "", 3, 0, ""},
		{"ERROR_CAPTCHA_UNSOLVABLE", out, 9, Unsolvable, 3, 0, ""},
		{"ERROR_BAD_DUPLICATES", out, 1, "", 2, 0, ""},
		{"ERROR_BAD_DUPLICATES", out, 9, Unsolvable, 3, 0, ""},
		{"ERROR_WRONG_ID_FORMAT", out, 9, BadID, 1, 0, ""},
		{"ERROR_WRONG_CAPTCHA_ID", out, 9, BadID, 1, 0, ""},
		{"ERROR_TOKEN_EXPIRED", out, 9, BadTask, 1, 0, ""},
		{"ERROR_EMPTY_ACTION", out, 9, BadTask, 1, 0, ""},
		{"REPORT_NOT_RECORDED", out, 9, BadTask, 1, 0, ""},
		{"ERROR: 1001", in, 9, Banned, 1, 0, "10m"},
		{"ERROR: 1002", in, 9, Banned, 1, 0, "5m"},
		{"ERROR: 1003", in, 9, Banned, 1, 0, "30s"},
		{"ERROR: 1004", in, 9, Banned, 1, 0, "10m"},
		{"ERROR: 1005", out, 9, Banned, 1, 0, "5m"},
		{"ERROR_SERVER_ERROR", in, 1, "", 2, 25 * time.Second, ""},
		{"ERROR_SERVER_ERROR", in, 9, ServerFault, 5, 80 * time.Second, ""},
		{"ERROR_INTERNAL_SERVER_ERROR", out, 1, "", 1, 25 * time.Second, ""},
		{"ERROR_INTERNAL_SERVER_ERROR", out, 9, ServerFault, 1, 95 * time.Second, ""},
		{"ERROR_OF_TOMORROW", in, 9, BadTask, 1, 0, ""},
		{"ERROR_OF_TOMORROW", out, 9, BadTask, 1, 0, ""},
	} {
		for _, form := range []string{"plain", "JSON"} {
			t.Run(tt.code+" of "+tt.at+" in "+form, func(t *testing.T) {
				onFakeClock(t, captchatest.Options{}, func(b *bench) {
					body := tt.code
					if form == "JSON" {
						body = `{"status":0,"request":"` + tt.code + `","error_text":"` + testKey + `"}`
					}
					b.service.Fail(tt.at, repeat(tt.times, captchatest.Fault{Body: body})...)
					a, err := b.client.Solve(b.Context(), v2, b.slots.open)
					e, _ := errors.AsType[*Error](err)
					switch {
					case tt.want == "" && (err != nil || a.Token == ""):
						b.Fatalf("%v, want a token", err)
					case tt.want != "" && (e == nil || e.Class != tt.want || e.Code != tt.code && tt.want != NoThreads):
						b.Fatalf("error %v of %+v, want class %q", err, e, tt.want)
					}
					if got := b.calls(in); got != tt.submissions {
						b.Errorf("%d submissions, want %d", got, tt.submissions)
					}
					if b.took() < tt.atLeast || tt.times > 5 && b.took() > 3*time.Minute {
						b.Errorf("it took %v, want at least %v", b.took(), tt.atLeast)
					}
					if tt.log != "" && !strings.Contains(b.log.String(), tt.log) || tt.log == "" && b.log.Len() > 0 {
						b.Errorf("log %q, want %q", &b.log, tt.log)
					}
					b.balanced()
				})
			})
		}
	}
}

// What is closed for a while is left alone: no call leaves until then.
func TestABreakerKeepsStill(t *testing.T) {
	for _, tt := range []struct {
		code  string
		still time.Duration
	}{
		{"ERROR_KEY_DOES_NOT_EXIST", time.Hour},
		{"IP_BANNED", 5 * time.Minute},
		{"ERROR: 1003", 30 * time.Second},
	} {
		t.Run(tt.code, func(t *testing.T) {
			onFakeClock(t, captchatest.Options{}, func(b *bench) {
				b.service.Fail(in, captchatest.Fault{Body: tt.code})
				_, first := b.client.Solve(b.Context(), v3, b.slots.open)
				for b.took() < tt.still-time.Second {
					_, err := b.client.ThreadsInfo(b.Context())
					e, _ := errors.AsType[*Error](err)
					if e == nil || e.Code != tt.code || e.Op != "threads" {
						b.Fatalf("%v after %v, want the cause %v", err, b.took(), first)
					}
					time.Sleep(tt.still / 100)
				}
				if got := b.calls(""); got != 1 {
					b.Errorf("%d calls reached the service, want 1", got)
				}
				time.Sleep(tt.still/50 + time.Second)
				if _, err := b.client.Solve(b.Context(), v3, b.slots.open); err != nil {
					b.Errorf("when the time is over: %v", err)
				}
			})
		})
	}
}

// A bad key costs one call, and no ban.
func TestABadKeyIsAskedAboutOnce(t *testing.T) {
	for _, key := range []Key{"", "31characters31characters31chara", Key(testKey + "0"), "with a space in its middle......"} {
		if _, err := New(Options{Key: key}); err == nil || strings.Contains(err.Error(), "characters31") {
			t.Errorf("a key of %d characters: %v, want a refusal that does not hold it", len(key), err)
		}
	}
	onFakeClock(t, captchatest.Options{Key: strings.Repeat("f", 32)}, func(b *bench) {
		for range 50 {
			if _, err := b.client.Solve(b.Context(), v2, b.slots.open); err == nil {
				b.Fatal("an unknown key solved something")
			}
		}
		if got := b.calls(""); got != 1 {
			b.Errorf("%d calls with an unknown key, want 1", got)
		}
		b.balanced()
	})
}
