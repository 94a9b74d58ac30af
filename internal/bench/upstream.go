//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

// startUpstream serves the one upstream that sessionproxy leases, until the
// listener is closed. It takes CONNECT and no more.
func startUpstream() (net.Listener, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start upstream: %w", err)
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go serveUpstream(conn) // until either side closes it
		}
	}()
	return ln, nil
}

func serveUpstream(conn net.Conn) {
	defer conn.Close()
	r, err := http.ReadRequest(bufio.NewReader(conn)) // nothing comes behind it before the answer
	if err != nil || r.Method != http.MethodConnect {
		return // sessionproxy will see that we hang up
	}
	origin, err := net.Dial("tcp", r.Host)
	if err != nil {
		return
	}
	defer origin.Close()
	if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	var wg sync.WaitGroup
	join := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // however it ends, so does the other
		to.Close()
		from.Close()
	}
	wg.Go(func() { join(origin, conn) })
	wg.Go(func() { join(conn, origin) })
	wg.Wait()
}
