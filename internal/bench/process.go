//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A usage is what a process and its children have used.
type usage struct {
	cpu      time.Duration // user and system time
	resident int           // KiB, the sum of resident sets: what is shared counts for each
}

// usage is the proxy's; where there is none it is zero.
func (p *proxy) usage() (usage, error) {
	if p.name == direct {
		return usage{}, nil
	}
	return usageOf(p.cmd.Process.Pid)
}

// usageOf measures a process and all below it: some proxies have helpers.
func usageOf(pid int) (usage, error) {
	var all usage
	for _, p := range append(below(pid), pid) {
		cpu, err := cpuTime(p)
		if err != nil && p != pid {
			continue // a helper that has just ended
		}
		if err != nil {
			return usage{}, err
		}
		kib, err := residentKiB(p)
		if err != nil && p == pid {
			return usage{}, err
		}
		all.cpu += cpu
		all.resident += kib
	}
	return all, nil
}

// below lists the children of a process, and theirs, by the parent that
// proc_pid_stat(5) gives for each.
func below(pid int) (all []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is good
	parents := make(map[int]int, len(stats))
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := bytes.Cut(stat, []byte(") ")) // the name may hold spaces
		var state string
		var parent int
		if _, err := fmt.Sscan(string(rest), &state, &parent); err != nil {
			continue
		}
		child, _ := strconv.Atoi(strings.Split(file, "/")[2]) // the pattern has digits first
		parents[child] = parent
	}
	for child, parent := range parents {
		for range 8 { // generations
			if parent == pid {
				all = append(all, child)
				break
			}
			parent = parents[parent]
		}
	}
	return all
}

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
