package proxy_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

// bombs unpack to 16 GiB of zeros, but for brotli and deflate, whose members
// can't be strung together: those unpack to 80 MiB, more than is ever unpacked.
func bombs(t *testing.T) map[string][]byte {
	t.Helper()
	pack := func(size int64, packer func(io.Writer) io.WriteCloser) []byte {
		var b bytes.Buffer
		z := packer(&b)
		if _, err := io.Copy(z, io.LimitReader(zeros{}, size)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	const member, whole = 64 << 20, 80 << 20
	return map[string][]byte{
		"gzip": bytes.Repeat(pack(member, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }), 256),
		"zstd": bytes.Repeat(pack(member, func(w io.Writer) io.WriteCloser {
			z, err := zstd.NewWriter(w)
			if err != nil {
				t.Fatal(err)
			}
			return z
		}), 256),
		"br": pack(whole, func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, brotli.BestSpeed) }),
		"deflate": pack(whole, func(w io.Writer) io.WriteCloser {
			z, err := zlib.NewWriterLevel(w, zlib.BestSpeed)
			if err != nil {
				t.Fatal(err)
			}
			return z
		}),
	}
}

// A body that unpacks to a thousand times its size goes on as it came, page or
// form, and the look that the proxy takes at it ends where it has seen enough.
// It runs alone: what it measures is the process.
func TestCompressionBombs(t *testing.T) {
	pool := captcha.New(captcha.Options{Store: captcha.NewMemory(), Service: captcha.Service{
		Solver: &solver{verifier: captchatest.NewVerifier(widgets...)}, Threads: 1,
	}})
	t.Cleanup(pool.Close)
	packed := bombs(t)
	w := world.New(t, world.Options{
		Tokens: pool,
		Config: func(c *config.Config) { // so that pages and forms are looked at
			c.Sites[0].Login = loginRules()
			c.Sites[0].Captcha = []config.Captcha{
				{Type: config.CaptchaAuto, Method: http.MethodPost, Path: "/other", Budget: config.CaptchaBudget{PerHour: 1}},
				{Type: string(captcha.RecaptchaV2), Method: http.MethodPost, Path: "/form", SiteKey: "6Lv2", When: config.WhenEmpty, Budget: config.CaptchaBudget{PerHour: 1}},
			}
		},
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				h := sha256.New()
				n, err := io.Copy(h, r.Body)
				fmt.Fprintf(rw, "%d %x %v", n, h.Sum(nil), err)
				return
			}
			coding := r.Header.Get("Accept-Encoding")
			rw.Header().Set("Content-Type", "text/html")
			rw.Header().Set("Content-Encoding", coding)
			rw.Write(packed[coding])
		}),
	})
	for coding, bomb := range packed {
		for _, via := range []world.Way{world.TunnelH1, world.TunnelH2} {
			t.Run(coding+" page "+via.Name, func(t *testing.T) {
				costs(t, func() {
					if a := w.Get(t, via, "/page", "Accept-Encoding", coding); a.Text != string(bomb) {
						t.Errorf("%d bytes came, want the %d that were sent", len(a.Text), len(bomb))
					}
				})
			})
			t.Run(coding+" form "+via.Name, func(t *testing.T) {
				costs(t, func() {
					r := world.Request(t, http.MethodPost, via.URL("/form"), bytes.NewReader(bomb),
						"Content-Type", urlencoded, "Content-Encoding", coding, "Referer", via.URL("/page"))
					want := fmt.Sprintf("%d %x <nil>", len(bomb), sha256.Sum256(bomb))
					if a := world.Do(t, w.Client(via), r); a.Text != want {
						t.Errorf("the site read %q, want %q", a.Text, want)
					}
				})
			})
		}
	}
}

// costs bounds what f costs this process: to unpack 16 GiB takes half a minute,
// and to keep what was unpacked takes as much memory.
func costs(t *testing.T, f func()) {
	t.Helper()
	used := func() (time.Duration, uint64) {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return time.Duration(u.Utime.Nano()), m.TotalAlloc
	}
	cpu, heap := used()
	f()
	cpuAfter, heapAfter := used()
	if took, space := cpuAfter-cpu, (heapAfter-heap)>>20; took > 8*time.Second || space > 256 {
		t.Errorf("it took %v of CPU time and %d MiB", took, space)
	}
}
