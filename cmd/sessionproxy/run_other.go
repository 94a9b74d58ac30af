//go:build !unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
)

// replaceProcess does as exec would where there is none: the program has this
// one's files and console, and its end is the end of both. It returns only
// where the program can't be started.
func replaceProcess(path string, args, environ []string) error {
	signal.Ignore(os.Interrupt) // the console tells both; it is the program's to judge
	cmd := &exec.Cmd{Path: path, Args: args, Env: environ, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err == nil || ended {
		os.Exit(cmd.ProcessState.ExitCode())
	}
	return err
}
