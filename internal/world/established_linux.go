package world

import (
	"net"

	"golang.org/x/sys/unix"
)

// established says whether neither side has closed the connection, as the kernel
// has it: that the other side has, may not have been read yet.
func established(c net.Conn) bool {
	const tcpEstablished = 1 // include/net/tcp_states.h
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return false
	}
	open := false
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		open = err == nil && info.State == tcpEstablished
	})
	return err == nil && open
}
