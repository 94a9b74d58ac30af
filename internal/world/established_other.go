//go:build !linux

package world

import "net"

// established can't be seen here: a connection that its client has closed counts
// as ended, so that no verdict rests on what may not have been read yet.
func established(net.Conn) bool { return false }
