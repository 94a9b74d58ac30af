package proxy_test

import (
	"fmt"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/world"
)

func TestWorkersAreRemembered(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello, Config: clients, Listen: asking})
	for i, via := range world.Ways {
		for range i + 1 {
			w.GetAs(t, via, world.User{Name: fmt.Sprintf("crawler-worker-%d-session-qa%[1]d", i), Password: "s3cret"}, "/")
		}
	}
	all := w.Workers()
	if len(all) != len(world.Ways) {
		t.Fatalf("%+v", all)
	}
	for n, got := range all { // the last first
		i := len(all) - 1 - n
		if got.Client != "crawler" || got.Name != fmt.Sprint(i) || got.Session != fmt.Sprint("qa", i) || got.Site != "shop" ||
			got.From != "127.0.0.1" || got.Requests != int64(i+1) || got.First.After(got.Last) {
			t.Errorf("%d: %+v", i, got)
		}
	}
}
