//go:build unix

package main

import "syscall"

// replaceProcess puts the program at path in the place of this one. It returns
// only where it can't.
func replaceProcess(path string, args, environ []string) error {
	return syscall.Exec(path, args, environ) //nolint:gosec // the program that the user names is what this command runs
}
