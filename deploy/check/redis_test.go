package check

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The script that starts Compose's Redis group starts one here.
func TestRedisGroup(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "redis.password")
	if err := os.WriteFile(secret, []byte("p@ss word\"'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	master := freePort(t)
	start := func(role, port string) {
		cmd := exec.CommandContext(t.Context(), "sh", "../compose/redis.sh", role)
		cmd.Env = append(os.Environ(), "DIR="+t.TempDir(), "SECRET="+secret, "MASTER=127.0.0.1", "MASTER_PORT="+master, "PORT="+port)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	}
	ask := func(port string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), "redis-cli", append([]string{"-p", port}, args...)...)
		cmd.Env = append(os.Environ(), "REDISCLI_AUTH="+"p@ss word\"'")
		out, _ := cmd.CombinedOutput() // what it says is awaited
		return strings.TrimSpace(string(out))
	}
	start("master", master)
	eventually(t, "the master answers", func() bool { return ask(master, "PING") == "PONG" })
	start("replica", freePort(t))
	eventually(t, "a write is taken, which needs a replica", func() bool { return ask(master, "SET", "k", "v") == "OK" })
	var sentinels []string
	for range 3 {
		sentinels = append(sentinels, freePort(t))
		start("sentinel", sentinels[len(sentinels)-1])
	}
	for _, s := range sentinels {
		eventually(t, "Sentinels know the master and each other", func() bool {
			return ask(s, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "sessions") == "127.0.0.1\n"+master &&
				strings.HasPrefix(ask(s, "SENTINEL", "CKQUORUM", "sessions"), "OK 3 usable")
		})
	}
}

// freePort finds a port below those that the system gives to connections.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(20000))
		if ln, err := net.Listen("tcp", addr); err == nil {
			ln.Close()
			return strings.TrimPrefix(addr, "127.0.0.1:")
		}
	}
	t.Fatal("no free port in 100 tries")
	return ""
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after 30 s it is not so that %s", what)
		}
	}
}
