package main

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/freeport"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
)

// What is done at one proxy is heard at another that shares its Redis.
func TestEventsOfAllProxiesReachAnyListener(t *testing.T) {
	server := redistest.Single(t)
	state := filepath.Join(t.TempDir(), "state")
	here, there := freeport.Addr(t), freeport.Addr(t)
	for _, addr := range []string{here, there} {
		serving(t, "--share", "shop.test", "--state", state, "--store", server.URL(), "--admin", addr)
	}
	token, err := os.ReadFile(filepath.Join(state, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ask := func(method, url string) *http.Response {
		r, err := http.NewRequestWithContext(ctx, method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	events := ask(http.MethodGet, "http://"+here+"/api/v1/events")
	if resp := ask(http.MethodPost, "http://"+there+"/api/v1/sessions/shop.test/default/revoke"); resp.StatusCode != http.StatusOK {
		t.Fatalf("revoke: %s", resp.Status)
	}
	lines := bufio.NewScanner(events.Body)
	for lines.Scan() {
		if line := lines.Text(); strings.Contains(line, `"call":"POST /api/v1/sessions/{site}/{session}/revoke"`) {
			return
		}
	}
	t.Errorf("the other proxy's event never came: %v", lines.Err())
}
