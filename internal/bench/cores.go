//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// cores says who runs where.
type cores struct {
	proxy unix.CPUSet // one core, for whichever proxy has its turn
	load  unix.CPUSet // the others, for this process: load and origin
}

// splitCores gives the last core that this process may use to the proxies, and
// moves this process to the others. On a machine of one core all share it.
func splitCores() (cores, error) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return cores{}, fmt.Errorf("get CPU affinity: %w", err)
	}
	if all.Count() == 1 {
		return cores{proxy: all, load: all}, nil
	}
	c := cores{load: all}
	last := 0
	for cpu := range len(all) * strconv.IntSize {
		if all.IsSet(cpu) {
			last = cpu
		}
	}
	c.load.Clear(last)
	c.proxy.Set(last)

	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return cores{}, err
	}
	for _, t := range threads { // threads made later inherit from these
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return cores{}, err
		}
		if err := unix.SchedSetaffinity(tid, &c.load); err != nil {
			return cores{}, fmt.Errorf("set CPU affinity of thread %d: %w", tid, err)
		}
	}
	runtime.GOMAXPROCS(c.load.Count())
	return c, nil
}

// start starts cmd on the proxies' core. A child inherits the affinity of the
// thread that forks, so it never runs elsewhere, and the Go runtime in it counts one CPU.
func (c cores) start(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.SchedSetaffinity(0, &c.proxy); err != nil {
		return fmt.Errorf("set CPU affinity: %w", err)
	}
	defer unix.SchedSetaffinity(0, &c.load) // cannot fail: this thread was there before
	return cmd.Start()
}
