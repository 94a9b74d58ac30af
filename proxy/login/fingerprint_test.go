package login

import (
	"net/url"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
)

const (
	formType = "application/x-www-form-urlencoded"
	partType = "multipart/form-data; boundary=b"
	jsonType = "application/json"
)

// multi is a multipart body of names and values in turn.
func multi(fields ...string) string {
	var b strings.Builder
	for i := 0; i < len(fields); i += 2 {
		b.WriteString("--b\r\nContent-Disposition: form-data; name=\"" + fields[i] + "\"\r\n\r\n" + fields[i+1] + "\r\n")
	}
	return b.String() + "--b--\r\n"
}

func TestFingerprints(t *testing.T) {
	t.Parallel()
	type req struct{ method, url, kind, body string }
	r := New(&config.Login{Ignore: []string{"nonce_*", "session_code"}}, "shop.test")
	for _, tt := range []struct {
		name string
		a, b req
		same bool
	}{
		{"the same form", req{"POST", "/login", formType, "user=a&pw=b"}, req{"POST", "/login", formType, "user=a&pw=b"}, true},
		{"in another order", req{"POST", "/login", formType, "user=a&pw=b"}, req{"POST", "/login", formType + "; charset=utf-8", "pw=%62&user=a"}, true},
		{"another token", req{"POST", "/login", formType, "user=a&csrf_token=1&g-recaptcha-response=x"}, req{"POST", "/login", formType, "user=a&csrf_token=2"}, true},
		{"another field of the operator's", req{"POST", "/login", formType, "user=a&nonce_x=1"}, req{"POST", "/login", formType, "user=a&nonce_y=2"}, true},
		{"another code in the query", req{"POST", "/login?session_code=1&tab=t", formType, "user=a"}, req{"POST", "/login?tab=t&session_code=2", formType, "user=a"}, true},
		{"another password", req{"POST", "/login", formType, "user=a&pw=b"}, req{"POST", "/login", formType, "user=a&pw=c"}, false},
		{"a field more", req{"POST", "/login", formType, "user=a"}, req{"POST", "/login", formType, "user=a&remember=1"}, false},
		{"values of one name in another order", req{"POST", "/login", formType, "a=1&a=2"}, req{"POST", "/login", formType, "a=2&a=1"}, false},
		{"what looks alike when joined", req{"POST", "/login", formType, "ab=c"}, req{"POST", "/login", formType, "a=bc"}, false},
		{"another path", req{"POST", "/login", formType, "user=a"}, req{"POST", "/login/", formType, "user=a"}, false},
		{"another host", req{"POST", "https://a.shop.test/login", formType, "user=a"}, req{"POST", "https://b.shop.test/login", formType, "user=a"}, false},
		{"another method", req{"POST", "/login", formType, "user=a"}, req{"PUT", "/login", formType, "user=a"}, false},
		{"another query", req{"POST", "/login?a=1", formType, "user=a"}, req{"POST", "/login?a=2", formType, "user=a"}, false},
		{"parts", req{"POST", "/login", partType, multi("user", "a", "_token", "1")}, req{"POST", "/login", partType, multi("_token", "22", "user", "a")}, true},
		{"parts with another password", req{"POST", "/login", partType, multi("user", "a", "pw", "b")}, req{"POST", "/login", partType, multi("user", "a", "pw", "c")}, false},
		{"JSON", req{"POST", "/login", jsonType, `{"user":"a","d":{"_csrf":"1","x":1}}`}, req{"POST", "/login", jsonType, `{"d":{"x":1, "_csrf":"2"}, "user":"\u0061"}`}, true},
		{"JSON with another password", req{"POST", "/login", jsonType, `{"user":"a","pw":"b"}`}, req{"POST", "/login", jsonType, `{"user":"a","pw":"c"}`}, false},
		{"JSON with another number", req{"POST", "/login", jsonType, `{"a":1}`}, req{"POST", "/login", jsonType, `{"a":1.0}`}, false},
		{"two documents", req{"POST", "/login", jsonType, `{"a":1}{"b":1}`}, req{"POST", "/login", jsonType, `{"a":1}{"b":2}`}, false},
		{"what is no JSON, byte for byte", req{"POST", "/login", jsonType, `{"a":`}, req{"POST", "/login", jsonType, `{"a": `}, false},
		{"what is none at all", req{"POST", "/login", "", "x"}, req{"POST", "/login", "", "y"}, false},
		{"parts without a boundary", req{"POST", "/login", "multipart/form-data", "x"}, req{"POST", "/login", "multipart/form-data", "y"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			print := func(q req) Fingerprint {
				u, err := url.Parse(q.url)
				if err != nil {
					t.Fatal(err)
				}
				return r.Fingerprint(q.method, u, q.kind, []byte(q.body))
			}
			if same := print(tt.a) == print(tt.b); same != tt.same {
				t.Errorf("%+v and %+v are the same login: %t", tt.a, tt.b, same)
			}
		})
	}
}

// FuzzFingerprint: two forms are the same login if and only if they say the
// same apart from what is ignored.
func FuzzFingerprint(f *testing.F) {
	f.Add("user", "alice", "secret", "t1")
	f.Add("a&b", "=", "", "\x00")
	r := New(&config.Login{}, "shop.test")
	u := &url.URL{Path: "/login"}
	f.Fuzz(func(t *testing.T, name, value, password, token string) {
		form := url.Values{name: {value}, "password": {password}, "csrf_token": {token}}
		one := r.Fingerprint("POST", u, formType, []byte(form.Encode()))
		form.Set("csrf_token", token+"x")
		if r.Fingerprint("POST", u, formType, []byte(form.Encode())) != one {
			t.Error("another token is another login")
		}
		form.Set("password", form.Get("password")+"x")
		if r.Fingerprint("POST", u, formType, []byte(form.Encode())) == one {
			t.Error("another password is the same login")
		}
		_ = r.Fingerprint("POST", u, jsonType, []byte(value))
		_ = r.Fingerprint("POST", u, partType, []byte(value))
	})
}
