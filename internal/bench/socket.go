//go:build linux

package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// The handshake of RFC 6455 section 1.3, with the key of its example.
const (
	socketKey    = "dGhlIHNhbXBsZSBub25jZQ=="
	socketAccept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
)

// messageLength is that of a chat's, or an event's.
const messageLength = 64

// socket is a client with a WebSocket. A get is one message and its echo.
type socket struct {
	*tls.Conn
	r       *bufio.Reader
	message []byte // a whole frame
}

func dialSocket(p *proxy, tickets tls.ClientSessionCache) (*socket, error) {
	conn, err := dialTunnel(p, originHost, "http/1.1", tickets)
	if err != nil {
		return nil, err
	}
	s := &socket{Conn: conn, r: bufio.NewReader(conn)}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\nOrigin: https://%[2]s\r\n\r\n",
		p.target("/socket"), p.host(originHost), socketKey); err != nil {
		conn.Close()
		return nil, err
	}
	for first := true; ; first = false {
		line, err := s.r.ReadSlice('\n')
		if err == nil && first && !bytes.HasPrefix(line, []byte("HTTP/1.1 101 ")) {
			err = fmt.Errorf("response %q, want a 101", bytes.TrimSpace(line))
		}
		if err != nil {
			conn.Close()
			return nil, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			break
		}
	}
	// A final text frame (RFC 6455 section 5.2) with the mask 0, which changes nothing.
	s.message = append([]byte{0x81, 0x80 | messageLength, 0, 0, 0, 0}, mebibyte[:messageLength]...)
	return s, nil
}

func (s *socket) get() error {
	if _, err := s.Write(s.message); err != nil {
		return err
	}
	_, err := discardFrame(s.r)
	return err
}

// discardFrame reads a short frame, which must be a text.
func discardFrame(r *bufio.Reader) (payload []byte, err error) {
	head, err := r.Peek(2)
	if err != nil {
		return nil, err
	}
	length, masked := int(head[1]&0x7f), head[1]&0x80 != 0
	if head[0]&0x0f != 1 || length > 125 {
		return nil, errors.New("a frame that is no short text")
	}
	n := 2 + length
	if masked {
		n += 4
	}
	frame, err := r.Peek(n)
	if err != nil {
		return nil, err
	}
	payload = frame[n-length:]
	if masked && binary.BigEndian.Uint32(frame[2:]) != 0 { // a proxy that reads messages masks them anew
		mask := frame[2:6]
		for i := range payload {
			payload[i] ^= mask[i%4]
		}
	}
	_, err = r.Discard(n) // payload stands until the next read
	return payload, err
}

// echo sends each message back.
func echo(conn net.Conn, r *bufio.Reader) error {
	for {
		payload, err := discardFrame(r)
		if err != nil {
			return err
		}
		if _, err := conn.Write(append([]byte{0x81, byte(len(payload))}, payload...)); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}
