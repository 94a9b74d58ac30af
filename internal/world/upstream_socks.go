package world

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
)

// serveSOCKS serves one connection by SOCKS5.
func (u *Upstream) serveSOCKS(v *Visit, c net.Conn, br *bufio.Reader) {
	read := func(n int) []byte {
		b := make([]byte, n)
		if _, err := io.ReadFull(br, b); err != nil {
			return nil
		}
		return b
	}
	text := func() string {
		if n := read(1); n != nil {
			return string(read(int(n[0])))
		}
		return ""
	}
	if b := read(1); b == nil || b[0] != 5 {
		return
	}
	methods := text()
	switch {
	case u.o.User == "" && strings.Contains(methods, "\x00"):
		_, _ = c.Write([]byte{5, 0})
	case u.o.User != "" && strings.Contains(methods, "\x02"):
		_, _ = c.Write([]byte{5, 2})
		read(1)
		user, password := text(), text()
		if user != u.o.User || password != u.o.Password {
			_, _ = c.Write([]byte{1, 1})
			return
		}
		_, _ = c.Write([]byte{1, 0})
	default:
		_, _ = c.Write([]byte{5, 0xff})
		return
	}
	head := read(4)
	if head == nil {
		return
	}
	var host string
	switch head[3] {
	case 1:
		host = net.IP(read(4)).String()
	case 3:
		host = text()
	case 4:
		host = net.IP(read(16)).String()
	}
	p := read(2)
	if p == nil {
		return
	}
	target := net.JoinHostPort(host, strconv.Itoa(int(p[0])<<8|int(p[1])))
	u.note("SOCKS " + target)
	reply := func(code int) { _, _ = c.Write([]byte{5, byte(code), 0, 1, 0, 0, 0, 0, 0, 0}) }
	if u.o.Answer != nil {
		if code := u.o.Answer(target); code != 0 {
			reply(code)
			return
		}
	}
	origin, err := u.reach(v, target)
	if err != nil {
		reply(4)
		return
	}
	reply(0)
	u.join(c, br, origin)
}
