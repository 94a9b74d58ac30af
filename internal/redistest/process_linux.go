package redistest

import "syscall"

// The servers end when the test's process does, however it does.
var attributes = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
