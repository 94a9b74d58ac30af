package world_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/world"
)

// A port that is used again must not be taken for the upstream that had it.
func TestAnUpstreamForgetsItsConnections(t *testing.T) {
	u := world.NewUpstream(t, world.UpstreamOptions{})
	peers := make(chan string, 1)
	origin := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if !u.Has(r.RemoteAddr) {
			t.Error("the upstream does not know its connection")
		}
		peers <- r.RemoteAddr
	}))
	defer origin.Close()
	at, err := url.Parse(u.URL)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return at, nil }}
	defer tr.CloseIdleConnections()
	world.Do(t, &http.Client{Transport: tr}, world.Request(t, http.MethodGet, origin.URL, nil))
	peer := <-peers
	world.Eventually(t, "the upstream has forgotten it", func() bool { return !u.Has(peer) })
}
