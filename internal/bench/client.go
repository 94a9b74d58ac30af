//go:build linux

package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"
)

// A client is one connection to the origin through a proxy. It is made to cost
// little, so that the proxy is what the rounds measure: net/http's own client
// would take as much time as the proxy does.
type client interface {
	// get makes one request and reads all of its response, which must be a 200.
	get() error
	SetDeadline(time.Time) error
	io.Closer
}

// patience bounds the life of a connection, unless its deadline is moved on:
// nothing here waits for ever.
const patience = 2 * time.Minute

func dial(p *proxy, r row, tickets tls.ClientSessionCache) (client, error) {
	target, host := p.target(r.path), originHost
	switch {
	case r.hosts > 0: // the session is not theirs
		target, host = r.path, manyHost(int(p.hosts.Add(1)))
	case r.any:
		target = r.path
	}
	switch {
	case r.socket:
		return dialSocket(p, tickets)
	case r.h2:
		return dialH2(p, target, tickets)
	}
	return dialH1(p, host, target, tickets)
}

// manyHost is the name of the nth of many hosts, which are one origin.
func manyHost(n int) string { return fmt.Sprintf("h%d.%s", n, originHost) }

// dialTunnel opens a tunnel to the origin's host and TLS in it, for one protocol.
func dialTunnel(p *proxy, host, protocol string, tickets tls.ClientSessionCache) (*tls.Conn, error) {
	return dialTunnelAs(p, clientName, host, protocol, tickets)
}

// dialTunnelAs is dialTunnel with another user name.
func dialTunnelAs(p *proxy, user, host, protocol string, tickets tls.ClientSessionCache) (*tls.Conn, error) {
	raw, err := net.Dial("tcp", p.addr)
	if err != nil {
		return nil, err
	}
	raw.SetDeadline(time.Now().Add(patience))
	conn, err := connect(raw, p, user, host, protocol, tickets)
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("connect through %s: %w", p.name, err)
	}
	return conn, nil
}

func connect(raw net.Conn, p *proxy, user, host, protocol string, tickets tls.ClientSessionCache) (*tls.Conn, error) {
	if authority := p.authority(host); authority != "" {
		if _, err := fmt.Fprintf(raw, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\nProxy-Authorization: Basic %s\r\n\r\n",
			authority, base64.StdEncoding.EncodeToString([]byte(user+":"+password))); err != nil {
			return nil, err
		}
		br := bufio.NewReaderSize(raw, 1<<10)
		if _, err := readHead(br); err != nil {
			return nil, err
		}
		if br.Buffered() > 0 {
			return nil, errors.New("bytes before the TLS handshake")
		}
	}
	conn := tls.Client(raw, &tls.Config{
		RootCAs:            p.roots,
		ServerName:         host,
		NextProtos:         slices.Compact([]string{protocol, "http/1.1"}), // as browsers offer them
		ClientSessionCache: tickets,
	})
	if err := conn.Handshake(); err != nil {
		return nil, err
	}
	if got := conn.ConnectionState().NegotiatedProtocol; got != protocol && (got != "" || protocol != "http/1.1") { // Squid says nothing of HTTP/1.1
		return nil, fmt.Errorf("negotiated %q, want %q", got, protocol)
	}
	return conn, nil
}

// h1 is a client that speaks HTTP/1.1.
type h1 struct {
	*tls.Conn
	r       *bufio.Reader
	request []byte
}

func dialH1(p *proxy, host, target string, tickets tls.ClientSessionCache) (*h1, error) {
	conn, err := dialTunnel(p, host, "http/1.1", tickets)
	if err != nil {
		return nil, err
	}
	return newH1(conn, p, host, target), nil
}

// dialH1As is dialH1 with another user name.
func dialH1As(p *proxy, user, host, target string) (*h1, error) {
	conn, err := dialTunnelAs(p, user, host, "http/1.1", nil)
	if err != nil {
		return nil, err
	}
	return newH1(conn, p, host, target), nil
}

func newH1(conn *tls.Conn, p *proxy, host, target string) *h1 {
	return &h1{Conn: conn, r: bufio.NewReader(conn), request: []byte("GET " + target + " HTTP/1.1\r\n" +
		"Host: " + p.host(host) + "\r\n" +
		"User-Agent: bench\r\n" +
		"Accept: */*\r\n" +
		"Accept-Encoding: gzip, deflate\r\n" +
		"Accept-Language: en\r\n\r\n")}
}

func (c *h1) get() error {
	if _, err := c.Write(c.request); err != nil {
		return err
	}
	length, err := readHead(c.r)
	if err != nil {
		return err
	}
	if length < 0 {
		return errors.New("response without Content-Length") // the origin sent one
	}
	_, err = c.r.Discard(length)
	return err
}

// readHead reads the head of a response, which must be a 200, and returns its
// Content-Length, or -1.
func readHead(r *bufio.Reader) (length int, err error) {
	status, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if _, code, _ := bytes.Cut(status, []byte(" ")); !bytes.HasPrefix(code, []byte("200")) {
		return 0, fmt.Errorf("response %q, want a 200", bytes.TrimSpace(status))
	}
	length = -1
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return length, nil
		}
		if name, value, _ := bytes.Cut(line, []byte(": ")); bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, err
			}
		}
	}
}
