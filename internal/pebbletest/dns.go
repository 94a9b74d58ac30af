package pebbletest

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// DNS is a server for which every name leads to 127.0.0.1.
type DNS struct {
	addr string

	mu   sync.Mutex // guards what follows
	held chan struct{}
	came chan struct{}
}

func startDNS(t testing.TB) *DNS {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0") // Pebble asks by TCP
	if err != nil {
		t.Fatal(err)
	}
	d := &DNS{addr: ln.Addr().String()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return // closed
			}
			serving.Go(func() { d.serve(conn) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		d.release()
		serving.Wait() // Pebble, which ended before, has closed its connections
	})
	return d
}

// Hold lets no answer out until release is called, so that whoever is being
// looked at is in the middle of it. came is closed when the first asks.
func (d *DNS) Hold() (came <-chan struct{}, release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held, d.came = make(chan struct{}), make(chan struct{})
	return d.came, d.release
}

func (d *DNS) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held != nil {
		close(d.held)
		d.held = nil
	}
}

// serve answers questions, each of which has its length before it (RFC 1035
// section 4.2.2).
func (d *DNS) serve(conn net.Conn) {
	defer conn.Close()
	for {
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, question); err != nil {
			return
		}
		reply, err := answer(question)
		if err != nil {
			return // it is none
		}
		if held := d.asked(); held != nil {
			<-held
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// asked says that a question came, and returns what its answer has to wait for.
func (d *DNS) asked() (held <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held == nil {
		return nil
	}
	if d.came != nil {
		close(d.came)
		d.came = nil
	}
	return d.held
}

// answer has 127.0.0.1 for an A, and nothing for the rest.
func answer(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	for _, q := range m.Questions {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			})
		}
	}
	return m.Pack()
}
