//go:build linux

package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
)

// The site that all proxies reach, by a name that only they resolve.
const originHost = "bench.test"

// sessionCookies is how many cookies the session holds once somebody has logged in.
const sessionCookies = 5

// pages are whole responses, by path: the origin, as the clients, is made to
// cost little. net/http's server would need twice the time for the same bytes.
var pages = map[string][]byte{
	"/login": page(loginCookies(), ""),
	"/1k":    page("", strings.Repeat("sessions", 1<<10/8)),
	"/1m":    page("", string(mebibyte)),
	"/1g":    head("", 1<<30), // its body follows
	"/socket": []byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Accept: " + socketAccept + "\r\n\r\n"),
}

var mebibyte = bytes.Repeat([]byte("sessions"), 1<<20/8)

func page(fields, body string) []byte { return append(head(fields, len(body)), body...) }

func head(fields string, length int) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\n"+
		"Date: Tue, 01 Dec 2026 12:00:00 GMT\r\n"+
		"Content-Type: text/plain; charset=utf-8\r\n"+
		"Cache-Control: no-store\r\n"+
		"%sContent-Length: %d\r\n\r\n", fields, length)
}

func loginCookies() string {
	var fields strings.Builder
	for i := range sessionCookies {
		fmt.Fprintf(&fields, "Set-Cookie: session_%d=%s; Path=/; Max-Age=86400; Secure; HttpOnly\r\n",
			i, strings.Repeat(strconv.Itoa(i), 32))
	}
	return fields.String()
}

// startOrigin serves the site over TLS on loopback until the listener is
// closed. It speaks HTTP/1.1 only: a proxy that would rather speak HTTP/2 to an
// origin then does the same kind of work as the rest.
func startOrigin(cert tls.Certificate) (net.Listener, error) {
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{cert},
		NextProtos:   []string{"http/1.1"},
	})
	if err != nil {
		return nil, fmt.Errorf("start origin: %w", err)
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go serveOrigin(conn) // until the proxy closes it
		}
	}()
	return ln, nil
}

func serveOrigin(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		path, response, err := answer(r)
		if err != nil {
			return // the proxy hung up, or what it sent is no request; it will see that as we hang up
		}
		if _, err := conn.Write(response); err != nil {
			return
		}
		switch path {
		case "/1g":
			for range 1 << 10 {
				if _, err := conn.Write(mebibyte); err != nil {
					return
				}
			}
		case "/socket":
			_ = echo(conn, r) // until the client hangs up
			return
		}
	}
}

// set is a response with a cookie whose value is always new: each is captured.
func set() []byte {
	return page(fmt.Sprintf("Set-Cookie: visit=%d; Path=/set; Secure\r\n", visits.Add(1)), string(mebibyte[:1<<10]))
}

var visits atomic.Int64

// answer reads a request without a body and returns its path and the response. A request
// that has not as many cookies as its query says, if it does, gets a 400: a
// proxy that attaches too few does less than it claims.
func answer(r *bufio.Reader) (path string, response []byte, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return "", nil, err
	}
	_, rest, _ := bytes.Cut(line, []byte(" "))
	target, _, _ := bytes.Cut(rest, []byte(" "))
	path, query, counted := strings.Cut(string(target), "?cookies=")

	cookies := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return "", nil, err
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found {
			break // the empty line
		}
		if bytes.EqualFold(name, []byte("Cookie")) {
			cookies += bytes.Count(value, []byte("="))
		}
	}
	response, found := pages[path]
	if path == "/set" {
		response, found = set(), true
	}
	switch {
	case !found:
		response = []byte("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
	case counted && query != strconv.Itoa(cookies):
		response = fmt.Appendf(nil, "HTTP/1.1 400 Has %d Cookies Instead Of %s\r\nContent-Length: 0\r\n\r\n", cookies, query)
	}
	return path, response, nil
}
