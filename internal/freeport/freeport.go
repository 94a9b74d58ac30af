// Package freeport gives loopback ports to programs that tests and benchmarks
// start.
//
// A port that ":0" once gave is anyone's again as soon as it is closed: of the
// next connection that leaves, and of the next test that asks. So these lie
// below those that the system gives by itself, and each process has a block of
// them, which is its own for as long as it runs.
package freeport

import (
	"fmt"
	"net"
	"sync"
	"testing"
)

const (
	first     = 12000
	blocks    = 50
	blockSize = 400            // first+blocks*blockSize is 32000; Linux begins at 32768 by itself
	guards    = first - blocks // the port that stands for block 0
)

var own struct {
	sync.Mutex
	guard net.Listener // held until the process ends
	block int
	next  int // in the block
}

// Take returns a port on which nobody listens, and which no other process is
// given. After 400 of them it begins again with those that have become free.
func Take() (int, error) {
	own.Lock()
	defer own.Unlock()
	for b := 0; own.guard == nil; b++ {
		if b == blocks {
			return 0, fmt.Errorf("take a port: all %d blocks are taken", blocks)
		}
		if l, err := listen(guards + b); err == nil {
			own.guard, own.block = l, b
		}
	}
	for range blockSize {
		port := first + own.block*blockSize + own.next
		own.next = (own.next + 1) % blockSize
		if l, err := listen(port); err == nil {
			l.Close()
			return port, nil
		}
	}
	return 0, fmt.Errorf("take a port: all %d of the block are in use", blockSize)
}

// Port is Take for a test.
func Port(t testing.TB) int {
	t.Helper()
	port, err := Take()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Addr is Port as an address, 127.0.0.1:PORT.
func Addr(t testing.TB) string {
	t.Helper()
	return addr(Port(t))
}

func listen(port int) (net.Listener, error) { return net.Listen("tcp", addr(port)) }

func addr(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
