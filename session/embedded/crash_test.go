//go:build linux || darwin

package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/session"
)

// Tests that kill a process, or take its disk away, run this binary again as
// one of these.
var children = map[string]func(path string) error{
	"capture":   captureChild,
	"disk full": diskFullChild,
}

const childEnv = "EMBEDDED_TEST_CHILD"

func TestMain(m *testing.M) {
	if child := children[os.Getenv(childEnv)]; child != nil {
		if err := child(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// capture is the i-th: 100 to a session.
func capture(i int) (session.Key, session.Cookie) {
	return session.Key{Site: "shop.test", ID: strconv.Itoa(i / 100)}, cookie(fmt.Sprintf("c%d", i), strconv.Itoa(i))
}

// captureChild captures with four writers until it is killed, and prints each
// that Apply acknowledged.
func captureChild(path string) error {
	s, err := Open(path)
	if err != nil {
		return err
	}
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for i := w; errs[w] == nil; i += len(errs) {
				key, c := capture(i)
				if _, _, errs[w] = s.Apply(context.Background(), key, set(c), hourly); errs[w] == nil {
					_, errs[w] = fmt.Println(i)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func TestAcknowledgedCapturesSurviveKill9(t *testing.T) {
	t.Parallel()
	for _, after := range []int{1, 40, 333, 1000} {
		t.Run(fmt.Sprintf("killed after %d", after), func(t *testing.T) {
			t.Parallel()
			path := tempPath(t)
			child := childOf(t, "capture", path)
			child.Stderr = os.Stderr
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			var acknowledged []int
			for lines := bufio.NewScanner(out); lines.Scan(); {
				i, err := strconv.Atoi(lines.Text())
				if err != nil {
					break // killed within a line
				}
				if acknowledged = append(acknowledged, i); len(acknowledged) == after {
					if err := child.Process.Kill(); err != nil {
						t.Fatal(err)
					}
				}
			}
			err = child.Wait()
			if status, ok := child.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				t.Fatalf("child: %v, want a kill", err)
			}

			s := openAt(t, path)
			for _, i := range acknowledged {
				key, c := capture(i)
				if got := value(t, s, key, c.Name); got != c.Value {
					t.Errorf("capture %d of %d acknowledged: value %q", i, len(acknowledged), got)
				}
			}
			if n := s.Damaged(); n != 0 {
				t.Errorf("%d damaged records", n)
			}
		})
	}
}

func TestAFullDiskLosesNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	if out, err := childOf(t, "disk full", tempPath(t)).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// diskFullChild bounds the size of its own files.
func diskFullChild(path string) error {
	signal.Ignore(syscall.SIGXFSZ) // its write fails then, as on a full disk
	s, err := Open(path)
	if err != nil {
		return err
	}
	if _, _, err := s.Apply(context.Background(), shop, set(cookie("sid", "1")), hourly); err != nil {
		return err
	}
	before, err := s.Load(context.Background(), shop)
	if err != nil {
		return err
	}

	restore, err := limitFileSize(path)
	if err != nil {
		return err
	}
	// A change that does not fit, and more that come upon it while it fails.
	const appliers = 20
	errs := make([]error, appliers)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, _, errs[i] = s.Apply(context.Background(), shop, set(large(i)...), hourly) })
	}
	wg.Wait()
	for i, err := range errs {
		// bbolt wraps some of the system's errors as text.
		if !strings.Contains(fmt.Sprint(err), syscall.EFBIG.Error()) {
			return fmt.Errorf("change %d on a full disk: error %w, want %w", i, err, syscall.EFBIG)
		}
	}
	if jar, err := s.Load(context.Background(), shop); jar != before {
		return fmt.Errorf("the jar shows what was not written: %v, %w", jar, err)
	}

	if err := restore(); err != nil {
		return err
	}
	if _, _, err := s.Apply(context.Background(), shop, set(large(0)...), hourly); err != nil {
		return fmt.Errorf("once there is room again: %w", err)
	}
	if err := s.Close(); err != nil {
		return err
	}
	s, err = Open(path)
	if err != nil {
		return err
	}
	defer s.Close()
	jar, err := s.Load(context.Background(), shop)
	if err != nil {
		return err
	}
	if want := 1 + len(large(0)); len(jar.Cookies()) != want {
		return fmt.Errorf("%d cookies after a restart, want %d", len(jar.Cookies()), want)
	}
	return nil
}

// limitFileSize keeps the process's files from growing beyond path's size.
func limitFileSize(path string) (restore func() error, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return nil, err
	}
	restore = func() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit) }
	return restore, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(info.Size()), Max: limit.Max})
}

func childOf(t *testing.T, name, path string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), exe, path)
	child.Env = append(os.Environ(), childEnv+"="+name)
	return child
}
