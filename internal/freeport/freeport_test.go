package freeport

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestAPortIsNobodyElses(t *testing.T) {
	if os.Getenv("FREEPORT_TEST_TAKES") != "" { // the other process
		for range 3 {
			println(Addr(t))
		}
		return
	}
	given := make(map[string]string)
	take := func(who, addr string) {
		if before := given[addr]; before != "" {
			t.Errorf("%s is given %s, which %s has", who, addr, before)
		}
		given[addr] = who
	}
	for range 3 {
		take("this process", Addr(t))
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAPortIsNobodyElses$")
	cmd.Env = append(os.Environ(), "FREEPORT_TEST_TAKES=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the other process: %v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "127.0.0.1:") {
			take("the other process", strings.TrimSpace(line))
		}
	}
	if len(given) != 6 {
		t.Errorf("%d ports were given: %v; want 6", len(given), given)
	}
}

func TestAPortInUseIsNotGivenAgain(t *testing.T) {
	used := Addr(t)
	l, err := net.Listen("tcp", used)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range blockSize { // once round
		if Addr(t) == used {
			t.Fatalf("%s is given while a program listens on it", used)
		}
	}
}
