//go:build linux

package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2 is a client that speaks HTTP/2, one stream at a time: a connection then
// does the work of one HTTP/1.1 connection, and the two rows can be compared.
type h2 struct {
	*tls.Conn
	w      *bufio.Writer
	framer *http2.Framer
	fields []hpack.HeaderField
	block  bytes.Buffer
	hpack  *hpack.Encoder // writes to block
	stream uint32         // last one opened
	unseen int            // bytes received that no WINDOW_UPDATE has given back
}

// window is what a connection and each of its streams may receive unasked. As
// with a browser's, no body of the bench waits for more.
const window = 8 << 20

func dialH2(p *proxy, target string, tickets tls.ClientSessionCache) (*h2, error) {
	conn, err := dialTunnel(p, originHost, "h2", tickets)
	if err != nil {
		return nil, err
	}
	c := &h2{Conn: conn, w: bufio.NewWriter(conn)}
	c.framer = http2.NewFramer(c.w, bufio.NewReader(conn))
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.framer.SetReuseFrames()
	c.hpack = hpack.NewEncoder(&c.block)
	c.fields = []hpack.HeaderField{
		{Name: ":method", Value: "GET"},
		{Name: ":scheme", Value: "https"},
		{Name: ":authority", Value: p.host(originHost)},
		{Name: ":path", Value: target},
		{Name: "user-agent", Value: "bench"},
		{Name: "accept", Value: "*/*"},
		{Name: "accept-encoding", Value: "gzip, deflate"},
		{Name: "accept-language", Value: "en"},
	}
	// Goes out with the first request: a client need not wait for the server's
	// SETTINGS (RFC 9113, section 3.4).
	c.w.WriteString(http2.ClientPreface)
	err = errors.Join(
		c.framer.WriteSettings(
			http2.Setting{ID: http2.SettingEnablePush, Val: 0},
			http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}),
		c.framer.WriteWindowUpdate(0, window))
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *h2) get() error {
	if c.stream == 0 {
		c.stream = 1 // clients open the odd ones: RFC 9113, section 5.1.1
	} else {
		c.stream += 2
	}
	c.block.Reset()
	for _, f := range c.fields {
		if err := c.hpack.WriteField(f); err != nil {
			return err
		}
	}
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: c.stream, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: true,
	})
	if err != nil {
		return err
	}
	if err := c.w.Flush(); err != nil {
		return err
	}
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return err
		}
		done, err := c.take(frame)
		if done || err != nil {
			return err
		}
	}
}

// take handles one frame and reports whether the response ended with it.
func (c *h2) take(frame http2.Frame) (done bool, err error) {
	switch f := frame.(type) {
	case *http2.MetaHeadersFrame:
		if status := f.PseudoValue("status"); status != "200" {
			return false, fmt.Errorf("response %q, want a 200", status)
		}
		return f.StreamEnded(), nil
	case *http2.DataFrame:
		c.unseen += int(f.Length)
		if c.unseen > window/2 {
			err = c.framer.WriteWindowUpdate(0, uint32(c.unseen)) // goes out with the next request
			c.unseen = 0
		}
		return f.StreamEnded(), err
	case *http2.SettingsFrame:
		if f.IsAck() {
			return false, nil
		}
		return false, errors.Join(c.framer.WriteSettingsAck(), c.w.Flush())
	case *http2.PingFrame:
		if f.IsAck() {
			return false, nil
		}
		return false, errors.Join(c.framer.WritePing(true, f.Data), c.w.Flush())
	case *http2.RSTStreamFrame:
		return false, fmt.Errorf("stream reset: %v", f.ErrCode)
	case *http2.GoAwayFrame:
		return false, fmt.Errorf("connection ended by GOAWAY: %v %q", f.ErrCode, f.DebugData())
	}
	return false, nil
}
