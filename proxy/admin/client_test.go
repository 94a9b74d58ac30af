package admin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestClient(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	r.put(t, "bank.shop.test/..", "bank.shop.test", "sid="+value)
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		q.Host = "localhost:8081"
		r.ServeHTTP(w, q)
	}))
	t.Cleanup(ts.Close)
	c := Client{Addr: strings.TrimPrefix(ts.URL, "http://"), Token: testToken}

	b, err := c.Do(t.Context(), "GET", Path("sessions", "the/bank", ".."), nil)
	if err != nil || !strings.Contains(string(b), `"site":"the/bank","session":".."`) {
		t.Errorf("GET: %s, %v", b, err)
	}
	if _, err := c.Do(t.Context(), "PUT", Path("sessions", "shop", "qa1", "cookies"), SetCookie{SetCookie: "sid=" + value}); err != nil {
		t.Errorf("PUT: %v", err)
	}
	if got, want := r.held(t, "shop.test/qa1"), "sid=THEVALUE@shop.test/"; got != want {
		t.Errorf("held %s, want %s", got, want)
	}
	_, err = c.Do(t.Context(), "GET", Path("nothing"), nil)
	if p, ok := errors.AsType[*Problem](err); !ok || p.Status != 404 || p.Code != "not_found" || p.Error() != p.Detail || p.Detail == "" {
		t.Errorf("a problem: %#v", err)
	}
	c.Token = "x"
	_, err = c.Do(t.Context(), "GET", Path("sites"), nil)
	if p, ok := errors.AsType[*Problem](err); !ok || p.Status != 401 {
		t.Errorf("without the token: %#v", err)
	}
}

func TestClientMeetsAnotherProgram(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, want string
		answer     http.HandlerFunc
	}{
		{"that answers with a page", "answered 404 Not Found", http.NotFound},
		{"that answers everything", "answered 200 OK", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "It works!") }},
		{"that sends it elsewhere", "answered 302 Found", http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP},
		{"whose JSON is another", "answered 500 Internal Server Error", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			io.WriteString(w, `{"status": "down"}`)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ts := httptest.NewServer(tt.answer)
			t.Cleanup(ts.Close)
			_, err := Client{Addr: strings.TrimPrefix(ts.URL, "http://"), Token: testToken}.Do(t.Context(), "GET", Path("sites"), nil)
			if p, ok := errors.AsType[*Problem](err); !ok || p.Code != "" || p.Error() != tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// What is asked about may be a secret: it is in no error.
func TestClientErrorsHoldNoQuery(t *testing.T) {
	t.Parallel()
	ts := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	ts.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	ts.Start()
	addr := strings.TrimPrefix(ts.URL, "http://")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{t.Context(), gone} {
		_, err := Client{Addr: addr, Token: testToken}.Do(ctx, "GET", "/api/v1/explain?url="+value, nil)
		if err == nil || strings.Contains(err.Error(), value) || strings.Contains(err.Error(), testToken) {
			t.Errorf("error %v", err)
		}
	}
	ts.Close()
	if _, err := (Client{Addr: addr, Token: testToken}).Do(t.Context(), "GET", "/api/v1/explain?url="+value, nil); err == nil || strings.Contains(err.Error(), value) {
		t.Errorf("error %v", err)
	}
}
