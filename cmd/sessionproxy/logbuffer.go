package main

import (
	"bufio"
	"io"
	"sync"
	"time"
)

// logBuffer gathers log lines and writes them each 100 ms: a write a request
// would cost more than the line.
type logBuffer struct {
	stop chan struct{}
	done chan struct{}

	mu  sync.Mutex // guards buf
	buf *bufio.Writer
}

const logFlush = 100 * time.Millisecond

func newLogBuffer(w io.Writer) *logBuffer {
	b := &logBuffer{stop: make(chan struct{}), done: make(chan struct{}), buf: bufio.NewWriterSize(w, 64<<10)}
	go b.run()
	return b
}

func (b *logBuffer) run() {
	defer close(b.done)
	tick := time.NewTicker(logFlush)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.flush()
		case <-b.stop:
			b.flush()
			return
		}
	}
}

func (b *logBuffer) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.buf.Flush() // a log that can't be written can't say so
}

// Write takes one line.
func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(line)
}

// close writes what is left.
func (b *logBuffer) close() {
	close(b.stop)
	<-b.done
}
