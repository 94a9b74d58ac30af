package main

import "os"

// heapFloor is memory that nobody uses, and that so takes none: pages that
// were never touched are not there. Go's collector starts when the heap has
// doubled, which a proxy of a few MiB does hundreds of times a minute, at a
// twentieth of its CPU time. With this it may waste as much before.
const heapFloor = 16 << 20

// keepHeapFloor returns the floor, to be kept alive while the proxy serves. An
// operator who has set the collector has it that way.
func keepHeapFloor() []byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return make([]byte, heapFloor)
}
