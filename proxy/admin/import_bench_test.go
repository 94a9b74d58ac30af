package admin

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session/embedded"
)

// BenchmarkImport10000 brings ten thousand cookies into a session, of one host
// and of a hundred sites: all that it holds change each time.
func BenchmarkImport10000(b *testing.B) {
	for _, hosts := range []int{1, 100} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			store, err := embedded.Open(filepath.Join(b.TempDir(), "store.db"))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { store.Close() })
			site := config.Site{Name: "shop", Key: "shop", Cookies: config.Cookies{Share: []string{"*"}}}
			var all ImportCookies
			for i := range 10_000 {
				host := fmt.Sprintf("h%d.test", i%hosts)
				all.Cookies = append(all.Cookies, sid(named(fmt.Sprint("c", i)), at(host)))
				if i < hosts {
					site.Patterns = append(site.Patterns, config.Pattern{Host: host})
				}
			}
			for round := 0; b.Loop(); round++ {
				for i := range all.Cookies {
					all.Cookies[i].Value = Bytes(fmt.Sprint(round))
				}
				if done, err := Import(b.Context(), store, []config.Site{site}, site, "default", all); err != nil || done.Taken != min(180*hosts, 3000) {
					b.Fatal(done.Taken, err)
				}
			}
		})
	}
}
