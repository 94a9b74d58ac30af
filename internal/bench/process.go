//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the user and system time that all threads of a process have used,
// by the clock that clock_getcpuclockid(3) names: nanoseconds, where
// /proc/PID/stat has the same sum in ticks of 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	const scheduler = 2 // CPUCLOCK_SCHED in the kernel's posix-timers_types.h
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &ts); err != nil {
		return 0, fmt.Errorf("read CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// residentKiB is the resident set of a process, VmRSS of proc_pid_status(5).
func residentKiB(pid int) (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(status, []byte("\nVmRSS:"))
	value, _, found := bytes.Cut(rest, []byte(" kB"))
	if !found {
		return 0, fmt.Errorf("read memory of process %d: no VmRSS", pid) // a zombie has none
	}
	return strconv.Atoi(string(bytes.TrimSpace(value)))
}
