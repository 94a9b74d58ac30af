package captchaai

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
)

// Key, ID and token stand in no error and no log line, whatever goes wrong.
func TestNoSecretIsPrinted(t *testing.T) {
	faults := []captchatest.Fault{
		{Reset: true}, {Hang: time.Hour}, {Status: 500, Body: testKey}, {Body: `{"status":0,"request":"` + testKey + `"}`},
		{Status: 302, Header: map[string]string{"Location": "http://evil.test/?" + testKey}},
		{Status: 403, Body: testKey}, {Body: "ERROR_" + strings.ToUpper(testKey) + "!"}, {Body: testKey}, {Body: `{"` + testKey},
		{Body: `{"status":1,"request":"secret token"}`}, {Body: "IP_BANNED"},
	}
	for _, form := range []Form{Mixed, Query} {
		for _, at := range []string{in, out} {
			for _, f := range faults {
				onFakeClock(t, captchatest.Options{}, func(b *bench) {
					b.client.form = form
					b.service.Fail(at, repeat(30, f)...)
					_, err := b.client.Solve(b.Context(), v3, b.slots.open)
					if err == nil {
						b.Fatalf("solved in spite of %+v", f)
					}
					said := err.Error() + fmt.Sprintf("%+v %+v %#v", err, b.client, b.client) + b.log.String()
					for _, secret := range []string{testKey, "70000000", "secret token", "evil.test"} {
						if strings.Contains(strings.ToLower(said), secret) {
							b.Errorf("%q stands in %s", secret, said)
						}
					}
					b.balanced()
				})
			}
		}
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", Key(testKey), "id", ID(testKey), "options", Options{Key: testKey})
	text, _ := json.Marshal(Options{Key: testKey}.Key)
	said := log.String() + string(text) + fmt.Sprintf("%v %s %q %x %#v %+v", Key(testKey), Key(testKey), Key(testKey), ID(testKey), ID(testKey), Options{Key: testKey})
	if strings.Contains(said, testKey) || strings.Contains(said, fmt.Sprintf("%x", testKey)) {
		t.Errorf("the key stands in %s", said)
	}
}

// The key goes to the service alone.
func TestNoRedirectIsFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		onFakeClock(t, captchatest.Options{}, func(b *bench) {
			b.service.Fail(in, captchatest.Fault{Status: status, Header: map[string]string{"Location": "http://elsewhere.test/in.php"}})
			if _, err := b.client.Submit(b.Context(), requestFor(v2)); err == nil || b.calls("") != 1 {
				b.Errorf("%d: %v after %d calls, want a refusal after one", status, err, b.calls(""))
			}
		})
	}
}

func TestEnvironmentProxiesAreIgnored(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		if _, err := b.client.ThreadsInfo(b.Context()); err != nil {
			b.Error(err)
		}
		for _, c := range []*http.Client{b.client.questions, b.client.submissions} {
			if c.Transport.(*http.Transport).Proxy != nil {
				b.Error("a transport has a proxy function")
			}
		}
	})
}

func TestURLsThatAreNone(t *testing.T) {
	for _, u := range []string{"ocr.captchaai.com", "ftp://x", "https://", "https://u:p@x", "https://x?key=1", "://"} {
		if _, err := New(Options{Key: testKey, URL: u}); err == nil {
			t.Errorf("%s was taken", u)
		}
	}
}
