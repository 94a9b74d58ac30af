package proxy_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/sessionproxy/sessionproxy/internal/world"
)

// h2Client writes HTTP/2 frame by frame, right or wrong.
type h2Client struct {
	*http2.Framer
	conn  *world.Conn
	block bytes.Buffer
	hpack *hpack.Encoder
}

func newH2Client(t *testing.T, w *world.World, settings ...http2.Setting) *h2Client {
	t.Helper()
	conn := w.Connect(t, world.Host+":443").TLS(world.Host, "h2")
	conn.Send(http2.ClientPreface)
	c := &h2Client{Framer: http2.NewFramer(conn.Conn, conn.R), conn: conn}
	c.AllowIllegalWrites = true
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.hpack = hpack.NewEncoder(&c.block)
	if err := c.WriteSettings(settings...); err != nil {
		t.Fatal(err)
	}
	return c
}

// open sends a request's fields. Errors show when its answer is read.
func (c *h2Client) open(stream uint32, end bool, fields []hpack.HeaderField) {
	c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.encode(fields), EndStream: end, EndHeaders: true})
}

func (c *h2Client) encode(fields []hpack.HeaderField) []byte {
	c.block.Reset()
	for _, f := range fields {
		c.hpack.WriteField(f)
	}
	return slices.Clone(c.block.Bytes())
}

// answer reads until the stream ends. status is ":status", or "reset" and
// "goaway" where there is none.
func (c *h2Client) answer(stream uint32) (status string, field func(string) string, text string) {
	field = func(string) string { return "" }
	var body strings.Builder
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return "goaway", field, ""
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				c.WriteSettingsAck()
			}
		case *http2.GoAwayFrame:
			if f.ErrCode != http2.ErrCodeNo {
				return "goaway", field, ""
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == stream && status == "" {
				return "reset", field, ""
			}
			if f.StreamID == stream {
				return status + ", then reset", field, body.String()
			}
		case *http2.MetaHeadersFrame:
			if f.StreamID != stream || f.PseudoValue("status") == "100" {
				continue
			}
			status = f.PseudoValue("status")
			fields := f.RegularFields()
			field = func(name string) string {
				for _, hf := range fields {
					if hf.Name == name {
						return hf.Value
					}
				}
				return ""
			}
			if f.StreamEnded() {
				return status, field, body.String()
			}
		case *http2.DataFrame:
			if f.StreamID == stream {
				body.Write(f.Data())
				if f.StreamEnded() {
					return status, field, body.String()
				}
			}
		}
	}
}

// wantEnd waits until the proxy ends the connection.
func (c *h2Client) wantEnd(t *testing.T) {
	t.Helper()
	for {
		if _, err := c.ReadFrame(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("wait for the end: %v", err)
		}
	}
}

// h2Fields makes header fields of names and values in turn.
func h2Fields(pairs ...string) (fs []hpack.HeaderField) {
	for i := 0; i < len(pairs); i += 2 {
		fs = append(fs, hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return fs
}

// h2Request is the fields of a plain GET of /own, with those given in place of
// its own pseudo-fields, or after them.
func h2Request(pairs ...string) []hpack.HeaderField {
	fs := h2Fields(":method", "GET", ":scheme", "https", ":authority", world.Host, ":path", "/own")
	for _, f := range h2Fields(pairs...) {
		at := slices.IndexFunc(fs, func(own hpack.HeaderField) bool { return own.Name == f.Name && own.IsPseudo() })
		if at < 0 {
			fs = append(fs, f)
		} else {
			fs[at] = f
		}
	}
	return fs
}

// RFC 9113 sections 8.2 and 8.3: what HTTP/2 can carry and HTTP/1.1 can't must
// not become part of a request in HTTP/1.1.
func TestNoRequestIsSmuggledFromHTTP2(t *testing.T) {
	t.Parallel()
	const seen = "GET /own"
	for _, tt := range []struct {
		name   string
		fields []hpack.HeaderField
		body   string
		answer string // status, "reset" or "goaway"
		seen   string // by the origin
	}{
		{"a plain request", h2Request(), "", "200", seen},

		{"a space in the path", h2Request(":path", "/own HTTP/1.1"), "", "400", ""},
		{"a second request line in the path", h2Request(":path", "/own HTTP/1.1\r\nHost: shop.test\r\n\r\nGET /evil"), "", "reset", ""},
		{"a tab in the path", h2Request(":path", "/own\t"), "", "reset", ""},
		{"a NUL in the path", h2Request(":path", "/own\x00"), "", "reset", ""},
		{"a space in the query", h2Request(":path", "/own?a b"), "", "400", ""},
		{"a query", h2Request(":path", "/own?a=b&c"), "", "200", "GET /own?a=b&c"},
		{"no path", h2Request(":path", ""), "", "reset", ""},
		{"a path that is a URL", h2Request(":path", "https://evil.test/own"), "", "400", ""},
		{"a path that begins with no slash", h2Request(":path", "own"), "", "reset", ""},
		{"a path that is a user name", h2Request(":path", "@evil.test/own"), "", "reset", ""},
		{"a star for GET", h2Request(":path", "*"), "", "400", ""},
		{"a star for OPTIONS", h2Request(":method", "OPTIONS", ":path", "*"), "", "200", "OPTIONS *"},
		{"two slashes", h2Request(":path", "//evil.test/own"), "", "200", "GET //evil.test/own"},

		{"a request line in the method", h2Request(":method", "GET /evil HTTP/1.1"), "", "400", ""},
		{"a line break in the method", h2Request(":method", "GET\r\n"), "", "reset", ""},
		{"a colon in the method", h2Request(":method", "GET:"), "", "400", ""},
		{"no method", h2Request(":method", ""), "", "reset", ""},
		{"CONNECT", h2Fields(":method", "CONNECT", ":authority", world.Host+":443"), "", "405", ""},
		{"CONNECT to elsewhere", h2Fields(":method", "CONNECT", ":authority", "evil.test:443"), "", "405", ""},
		{"CONNECT with a protocol", h2Request(":method", "CONNECT", ":protocol", "websocket"), "", "reset", ""},
		{"TRACE", h2Request(":method", "TRACE"), "", "405", ""},

		{"another authority", h2Request(":authority", "evil.test"), "", "421", ""},
		{"the authority with a port", h2Request(":authority", world.Host+":443"), "", "200", seen},
		{"the authority with a port that is none", h2Request(":authority", world.Host+":@evil.test"), "", "reset", ""},
		{"the authority with a port of letters", h2Request(":authority", world.Host+":http"), "", "421", ""},
		{"the authority with a path", h2Request(":authority", world.Host+"/evil"), "", "421", ""},
		{"the authority and a space", h2Request(":authority", world.Host+" evil.test"), "", "421", ""},
		{"the authority with a line break", h2Request(":authority", world.Host+"\r\nX: y"), "", "reset", ""},
		{"a user name in the authority", h2Request(":authority", "a@"+world.Host), "", "reset", ""},
		{"Host in place of :authority", h2Fields(":method", "GET", ":scheme", "https", ":path", "/own", "host", world.Host), "", "200", seen},
		{"another Host in place of :authority", h2Fields(":method", "GET", ":scheme", "https", ":path", "/own", "host", "evil.test"), "", "421", ""},
		{"Host like :authority", h2Request("host", world.Host), "", "200", seen},
		{"Host unlike :authority", h2Request("host", "evil.test"), "", "400", ""},
		{"two Hosts", h2Request("host", world.Host, "host", world.Host), "", "400", ""},
		{"no authority at all", h2Fields(":method", "GET", ":scheme", "https", ":path", "/own"), "", "200", seen},

		{"another scheme", h2Request(":scheme", "ftp"), "", "reset", ""},
		{"a scheme with a line break", h2Request(":scheme", "https\r\n"), "", "reset", ""},
		{"a pseudo-field twice", append(h2Request(), h2Fields(":path", "/evil")...), "", "reset", ""},
		{"a pseudo-field behind a field", append(h2Fields("x", "y"), h2Request()...), "", "reset", ""},
		{"a pseudo-field of answers", append(h2Request(), h2Fields(":status", "200")...), "", "reset", ""},
		{"a pseudo-field that is none", append(h2Request(), h2Fields(":evil", "y")...), "", "reset", ""},

		{"a name in capitals", h2Request("X-Y", "z"), "", "reset", ""},
		{"a name with a space", h2Request("x y", "z"), "", "reset", ""},
		{"a name with a colon", h2Request("x: y\r\nz", "z"), "", "reset", ""},
		{"no name", h2Request("", "z"), "", "reset", ""},
		{"a value with a line break", h2Request("x", "y\r\nTransfer-Encoding: chunked"), "", "reset", ""},
		{"a value with a CR", h2Request("x", "y\rz"), "", "reset", ""},
		{"a value with a NUL", h2Request("x", "y\x00z"), "", "reset", ""},

		{"transfer-encoding", h2Request("transfer-encoding", "chunked"), "", "400", ""},
		{"connection", h2Request("connection", "content-length"), "", "400", ""},
		{"keep-alive", h2Request("keep-alive", "timeout=5"), "", "400", ""},
		{"proxy-connection", h2Request("proxy-connection", "close"), "", "400", ""},
		{"upgrade", h2Request("upgrade", "h2c"), "", "400", ""},
		{"te of more than trailers", h2Request("te", "trailers, chunked"), "", "400", ""},
		{"http2-settings", h2Request("http2-settings", "AAMAAABk"), "", "200", seen},

		{"a body as long as announced", h2Request(":method", "POST", "content-length", "5"), "hello", "200", "POST /own hello"},
		{"a body of no announced length", h2Request(":method", "POST"), "hello", "200", "POST /own hello"},
		{"a body shorter than announced", h2Request(":method", "POST", "content-length", "9"), "hello", "400", ""},
		{"a body longer than announced", h2Request(":method", "POST", "content-length", "3"), "hello", "reset", ""},
		// The body is nobody's: it comes before the answer, or after it.
		{"a length of nothing and a body", h2Request(":method", "POST", "content-length", "0"), "GET /evil HTTP/1.1\r\n\r\n", "reset or 200 or 200, then reset", "POST /own"},
		{"a length that is no number, and a body", h2Request(":method", "POST", "content-length", "+5"), "hello", "reset or 400 or 400, then reset", ""},
		{"a length and no body", h2Request(":method", "POST", "content-length", "5"), "", "200", "POST /own"},
		{"two lengths and no body", h2Request(":method", "POST", "content-length", "5", "content-length", "6"), "", "400", ""},
		{"a request for a body of GET", h2Request(), smuggledGet, "200", "GET /own " + smuggledGet},

		{"crumbs", h2Request("cookie", "a=1", "cookie", "b=2"), "", "200", seen},
		{"an expectation", h2Request(":method", "POST", "expect", "100-continue"), "hello", "200", "POST /own hello"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			origin := world.NewWitness(world.Readings[0])
			w := world.New(t, world.Options{Script: origin.Script})
			c := newH2Client(t, w)
			c.open(1, tt.body == "", tt.fields)
			if tt.body != "" {
				c.WriteData(1, true, []byte(tt.body))
			}
			status, _, text := c.answer(1)
			if !slices.Contains(strings.Split(tt.answer, " or "), status) {
				t.Errorf("answered with %s %q, want %s", status, text, tt.answer)
			}
			if tt.seen != "" && strings.HasPrefix(status, "200") && text != tt.seen {
				t.Errorf("answered with %q, want %q", text, tt.seen)
			}
			if a := w.Get(t, world.TunnelH2, "/innocent"); a.Text != "GET /innocent" {
				t.Errorf("another client was answered with %d %q", a.StatusCode, a.Text)
			}
			want := []string{tt.seen, "GET /innocent"}
			for _, s := range origin.Seen() {
				if !slices.Contains(want, s.String()) && !s.Broken {
					t.Errorf("the origin saw %q and the body %q", s.Head, s.Body)
				}
				if tt.name == "crumbs" && s.Target == "/own" && !slices.Equal(s.Field("Cookie"), []string{"a=1; b=2"}) {
					t.Errorf("the origin saw %q", s.Head)
				}
			}
			for _, fault := range origin.Faults() {
				t.Errorf("the origin was sent: %s", fault)
			}
		})
	}
}

func TestTrailersOfHTTP2CarryNoFraming(t *testing.T) {
	t.Parallel()
	origin := world.NewWitness(world.Readings[0])
	w := world.New(t, world.Options{Script: origin.Script})
	for _, tt := range []struct {
		name    string
		trailer []hpack.HeaderField
		answer  string
	}{
		{"a length", h2Fields("content-length", "5"), "reset"},
		{"a Host", h2Fields("host", "evil.test"), "reset"},
		{"a cookie", h2Fields("cookie", "sid=evil"), "200"},
		{"a field that was not announced", h2Fields("y", "z"), "200"},
		{"a pseudo-field", h2Fields(":path", "/evil"), "reset"},
		{"a line break", h2Fields("x", "y\r\n\r\nGET /evil HTTP/1.1"), "reset"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newH2Client(t, w)
			c.open(1, false, h2Request(":method", "POST", "trailer", "content-length, host, cookie, x"))
			c.WriteData(1, false, []byte("hello"))
			c.open(1, true, tt.trailer)
			if status, _, text := c.answer(1); status != tt.answer {
				t.Errorf("answered with %s %q, want %s", status, text, tt.answer)
			}
		})
	}
	for _, s := range origin.Seen() {
		if s.String() != "POST /own hello" && !s.Broken {
			t.Errorf("the origin saw %q and %q", s.Head, s.Body)
		}
	}
	for _, fault := range origin.Faults() {
		t.Errorf("the origin was sent: %s", fault)
	}
}

// One client's frames must not cost another's answer.
func TestHTTP2ThatWastesTheProxysTime(t *testing.T) {
	t.Parallel()
	origin := world.NewWitness(world.Readings[0])
	w := world.New(t, world.Options{Script: origin.Script})
	for _, tt := range []struct {
		name   string
		attack func(*testing.T, *h2Client)
		ends   []string // how the stream that follows may be answered
	}{
		{"a header list of 32 MiB", func(_ *testing.T, c *h2Client) {
			piece := c.encode(h2Fields("x", strings.Repeat("x", 12<<10)))
			c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(h2Request()), EndStream: true})
			for range 32 << 20 / len(piece) {
				if c.WriteContinuation(1, false, piece) != nil {
					return
				}
			}
			c.WriteContinuation(1, true, nil)
		}, []string{"goaway"}},
		{"ten thousand fields", func(t *testing.T, c *h2Client) {
			// Each is one byte once the first is in the table.
			block := c.encode(append(h2Request(), slices.Repeat(h2Fields("x", "y"), 10_000)...))
			c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:len(block)/2], EndStream: true})
			c.WriteContinuation(1, true, block[len(block)/2:])
			if status, _, _ := c.answer(1); status != "431" && status != "goaway" {
				t.Errorf("answered with %s, want 431", status)
			}
		}, []string{"200", "goaway"}},
		{"two thousand resets", func(_ *testing.T, c *h2Client) {
			for i := range uint32(2000) {
				c.open(2*i+1, true, h2Request(":path", "/reset"))
				if c.WriteRSTStream(2*i+1, http2.ErrCodeCancel) != nil {
					return
				}
			}
		}, []string{"200", "goaway"}},
		{"two thousand settings that nobody acknowledges", func(_ *testing.T, c *h2Client) {
			for range 2000 {
				if c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16}) != nil {
					return
				}
			}
		}, []string{"200", "goaway"}},
		{"windows that close", func(_ *testing.T, c *h2Client) {
			c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			for i := range uint32(100) {
				c.open(2*i+1, true, h2Request(":path", "/stuck"))
			}
			c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16})
		}, []string{"200"}},
		{"a window that overflows", func(_ *testing.T, c *h2Client) {
			c.WriteWindowUpdate(0, 1<<31-1)
			c.WriteWindowUpdate(0, 1<<31-1)
		}, []string{"goaway"}},
		{"a frame of no stream", func(_ *testing.T, c *h2Client) { c.WriteData(0, true, []byte("x")) }, []string{"goaway"}},
		{"a frame that is too long", func(_ *testing.T, c *h2Client) { c.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 1<<20)) }, []string{"goaway"}},
		{"a header block that is none", func(_ *testing.T, c *h2Client) {
			c.WriteRawFrame(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream, 1, []byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
		}, []string{"goaway"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newH2Client(t, w)
			tt.attack(t, c)
			if a := w.Get(t, world.TunnelH2, "/innocent"); a.Text != "GET /innocent" {
				t.Errorf("another client was answered with %d %q", a.StatusCode, a.Text)
			}
			c.open(9999, true, h2Request())
			if status, _, text := c.answer(9999); !slices.Contains(tt.ends, status) {
				t.Errorf("the client itself was answered with %s %q, want %v", status, text, tt.ends)
			}
		})
	}
}
