package upstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
)

// golang.org/x/net/proxy speaks SOCKS5, too. Its errors are texts, so that a
// wrong password, a dead target and a broken proxy look alike, and here the
// first is the operator's to mend, the second nobody's, and the third rests
// the upstream. Its connections can't be closed in one direction either.

// What RFC 1928 and RFC 1929 number.
const (
	socksVersion    = 5
	socksConnect    = 1
	socksNoAuth     = 0
	socksPassword   = 2
	socksNoMethod   = 0xff
	passwordVersion = 1
	addrIPv4        = 1
	addrName        = 3
	addrIPv6        = 4
)

var socksReplies = map[byte]string{
	1: "general failure", 2: "not allowed by its rules", 3: "network unreachable", 4: "host unreachable",
	5: "connection refused", 6: "TTL expired", 7: "command not supported", 8: "address type not supported",
}

var errNoSOCKS = errors.New("the answer is no SOCKS5")

// socks5 makes c a tunnel by SOCKS5's CONNECT (RFC 1928).
func socks5(c net.Conn, u Upstream, addr string) (net.Conn, error) {
	request, err := socksRequest(addr)
	if err != nil {
		return nil, &Error{Reason: Refused, Upstream: u, err: err}
	}
	if err := socksGreet(c, u); err != nil {
		return nil, err
	}
	if _, err := c.Write(request); err != nil {
		return nil, unanswered(u, err)
	}
	var reply [4]byte // version, reply, reserved, address type
	if _, err := io.ReadFull(c, reply[:]); err != nil {
		return nil, unanswered(u, err)
	}
	if reply[0] != socksVersion {
		return nil, &Error{Reason: Protocol, Upstream: u, err: errNoSOCKS}
	}
	if code := reply[1]; code != 0 {
		return nil, &Error{Reason: Refused, Upstream: u, Status: int(code), err: errors.New(socksReply(code))}
	}
	if err := skipAddress(c, reply[3]); err != nil {
		return nil, fault(u, Protocol, err)
	}
	return c, nil
}

// socksGreet agrees on a method and logs in.
func socksGreet(c net.Conn, u Upstream) error {
	greeting := []byte{socksVersion, 1, socksNoAuth}
	if u.auth {
		greeting = []byte{socksVersion, 2, socksNoAuth, socksPassword}
	}
	if _, err := c.Write(greeting); err != nil {
		return fault(u, Closed, err)
	}
	var answer [2]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return fault(u, Closed, err)
	}
	switch method := answer[1]; {
	case answer[0] != socksVersion:
		return &Error{Reason: Protocol, Upstream: u, err: errNoSOCKS}
	case method == socksNoAuth:
		return nil
	case method == socksNoMethod, method == socksPassword && !u.auth:
		return &Error{Reason: Auth, Upstream: u, err: u.badCredentials()}
	case method != socksPassword:
		return &Error{Reason: Protocol, Upstream: u, err: fmt.Errorf("it chose the method %d, which it was not offered", method)}
	}
	login := []byte{passwordVersion, byte(len(u.user))}
	login = append(login, u.user...)
	login = append(login, byte(len(u.pass)))
	login = append(login, u.pass...)
	if _, err := c.Write(login); err != nil {
		return fault(u, Closed, err)
	}
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return fault(u, Closed, err)
	}
	if answer[1] != 0 {
		return &Error{Reason: Auth, Upstream: u, err: errCredentials}
	}
	return nil
}

// socksRequest asks for a connection to addr. A name goes as it is: the
// upstream looks it up.
func socksRequest(addr string) ([]byte, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	b := []byte{socksVersion, socksConnect, 0}
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap().WithZone("")
		kind := byte(addrIPv6)
		if ip.Is4() {
			kind = addrIPv4
		}
		b = append(append(b, kind), ip.AsSlice()...)
	} else {
		if len(host) > 255 {
			return nil, errors.New("the host's name is longer than SOCKS5 takes")
		}
		b = append(append(b, addrName, byte(len(host))), host...)
	}
	return append(b, byte(n>>8), byte(n)), nil
}

// skipAddress reads the address that the upstream says it bound, which says
// nothing. Not a byte more: what follows is the target's.
func skipAddress(c net.Conn, kind byte) error {
	n := 0
	switch kind {
	case addrIPv4:
		n = net.IPv4len
	case addrIPv6:
		n = net.IPv6len
	case addrName:
		var length [1]byte
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return err
		}
		n = int(length[0])
	default:
		return errNoSOCKS
	}
	_, err := io.ReadFull(c, make([]byte, n+2))
	return err
}

func socksReply(code byte) string {
	if text := socksReplies[code]; text != "" {
		return text
	}
	return "unknown reply"
}
