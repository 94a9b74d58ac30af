package soak

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
)

// A fault breaks one part, and returns what mends it.
type fault struct {
	name   string
	lasts  time.Duration
	breaks func(t *testing.T, g *group, o *origin) (mend func())
}

var faults = []fault{
	{"kill -9 of a proxy, and its restart", 3 * time.Second, func(t *testing.T, g *group, _ *origin) func() {
		p := g.proxies[0]
		p.signal(syscall.SIGKILL)
		return func() { p.start(); p.wait(t.Context(), "ready", "degraded") }
	}},
	{"Redis' master is killed", 8 * time.Second, func(_ *testing.T, g *group, _ *origin) func() {
		old := g.redis.Master()
		old.Kill()
		g.redis.WaitMaster(old)
		return old.Start
	}},
	{"Redis fails over by command", 5 * time.Second, func(_ *testing.T, g *group, _ *origin) func() {
		g.redis.Failover()
		return func() {}
	}},
	{"Redis' master stands still for half a second", 500 * time.Millisecond, func(_ *testing.T, g *group, _ *origin) func() {
		m := g.redis.Master()
		m.Freeze()
		return m.Thaw
	}},
	{"a Sentinel is killed", 5 * time.Second, func(_ *testing.T, g *group, _ *origin) func() {
		s := g.redis.Sentinels[2]
		s.Kill()
		return s.Start
	}},
	{"five upstreams are killed", 5 * time.Second, func(_ *testing.T, g *group, _ *origin) func() {
		for _, e := range g.exits[:5] {
			e.Kill()
		}
		return func() {
			for _, e := range g.exits[:5] {
				e.Restart()
			}
		}
	}},
	{"an upstream accepts, and never speaks", 5 * time.Second, func(_ *testing.T, g *group, _ *origin) func() {
		g.exits[6].Mute(true)
		return func() { g.exits[6].Mute(false) }
	}},
	{"an upstream answers with garbage", 5 * time.Second, func(_ *testing.T, g *group, _ *origin) func() {
		g.exits[7].Garble(true)
		return func() { g.exits[7].Garble(false) }
	}},
	{"the sites dribble", 5 * time.Second, func(_ *testing.T, _ *group, o *origin) func() {
		o.dribble.Store(true)
		return func() { o.dribble.Store(false) }
	}},
	{"the captcha service breaks each connection", 5 * time.Second, func(_ *testing.T, g *group, _ *origin) func() {
		g.solver.Fail("/in.php", captchatest.Fault{Reset: true}, captchatest.Fault{Reset: true}, captchatest.Fault{Status: 502})
		return func() {}
	}},
	{"the configuration is read again each second", 8 * time.Second, func(t *testing.T, g *group, _ *origin) func() {
		text, err := os.ReadFile(g.file)
		if err != nil {
			t.Fatal(err)
		}
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for n := 0; ; n++ {
				select {
				case <-time.After(time.Second):
					g.write("sessionproxy.yaml", append(text[:len(text):len(text)], fmt.Sprintf("# %d\n", n)...))
				case <-stop:
					return
				}
			}
		}()
		return func() { close(stop); <-done }
	}},
	{"a proxy may write no byte to a file", 5 * time.Second, func(t *testing.T, g *group, _ *origin) func() {
		return limit(t, g.proxies[1], "fsize", "0")
	}},
	{"a proxy has no file descriptor left", 5 * time.Second, func(t *testing.T, g *group, _ *origin) func() {
		return limit(t, g.proxies[2], "nofile", "40")
	}},
}

// limit lowers what the system lets a process have.
func limit(t *testing.T, p *process, what, to string) func() {
	set := func(value string) {
		t.Helper()
		out, err := exec.Command("prlimit", "--pid", fmt.Sprint(p.cmd.Process.Pid), "--"+what+"="+value+":").CombinedOutput()
		if err != nil {
			t.Errorf("prlimit %s: %v: %s", what, err, out)
		}
	}
	before, err := exec.Command("prlimit", "--pid", fmt.Sprint(p.cmd.Process.Pid), "--"+what, "--raw", "--noheadings", "--output", "SOFT").Output()
	if err != nil {
		t.Fatalf("prlimit: %v", err)
	}
	set(to)
	return func() { set(strings.TrimSpace(string(before))) }
}

// recovery is how long clients may still fail once a part is mended.
const recovery = 15 * time.Second

// breakAll breaks one part after the other, at least until total is over, and
// tells what clients saw of each.
func (g *group) breakAll(t *testing.T, o *origin, f *figures, total time.Duration) {
	began := time.Now()
	rows := []string{"| Broken | Requests that failed | Back after |", "|---|---|---|"}
	for n := 0; n < len(faults) || time.Since(began) < total; n++ {
		broken := faults[n%len(faults)]
		time.Sleep(3 * time.Second)
		goodBefore, badBefore := f.totals()
		at := time.Now()
		mend := broken.breaks(t, g, o)
		time.Sleep(broken.lasts)
		mend()
		mended := time.Now()
		quiet := func() bool { return f.recovered(mended, time.Now()) < time.Since(mended)-2*time.Second }
		redistest.Eventually(t, 2*recovery, "requests go well for two seconds after: "+broken.name, quiet)
		back := f.recovered(at, time.Now())
		good, bad := f.totals()
		rows = append(rows, fmt.Sprintf("| %s | %d of %d | %v |", broken.name, bad-badBefore, good+bad-goodBefore-badBefore, back.Round(time.Second)))
	}
	t.Log("\n" + strings.Join(rows, "\n"))
}
