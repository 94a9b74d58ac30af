//go:build profile

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// A build with the tag "profile" writes a CPU profile of its life to the file
// that CPUPROFILE names, once SIGUSR1 ends it: the bench's -profile.
func init() {
	name := os.Getenv("CPUPROFILE")
	if name == "" {
		return
	}
	f, err := os.Create(name + ".part")
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sessionproxy: write CPU profile: %v\n", err)
		os.Exit(exitFailed)
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGUSR1)
	go func() {
		<-end
		pprof.StopCPUProfile()
		if err := errors.Join(f.Close(), os.Rename(f.Name(), name)); err != nil {
			fmt.Fprintf(os.Stderr, "sessionproxy: write CPU profile: %v\n", err)
		}
	}()
}
