//go:build !linux

package redistest

import "syscall"

var attributes *syscall.SysProcAttr
