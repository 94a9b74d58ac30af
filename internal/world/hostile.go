package world

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Reading is how a server understands HTTP/1.1. Only the zero Reading is
// right (RFC 9112); the others are mistakes that real servers make, and that
// request smuggling is built on.
type Reading struct {
	Name string

	LengthWins    bool // Content-Length beats Transfer-Encoding
	ChunkedAnyhow bool // "chunked" counts wherever and however a field says it
	NoBodyOnGet   bool // the body of a GET, HEAD or DELETE is the next request
	LooseLines    bool // a lone LF or CR ends a line
}

// Readings are the right one and the mistakes.
var Readings = []Reading{
	{Name: "strict"},
	{Name: "length wins", LengthWins: true, LooseLines: true},
	{Name: "chunked anyhow", ChunkedAnyhow: true, LooseLines: true},
	{Name: "no body on GET", NoBodyOnGet: true},
}

// Strict says whether what is ambiguous is a fault.
func (r Reading) Strict() bool {
	return !r.LengthWins && !r.ChunkedAnyhow && !r.NoBodyOnGet && !r.LooseLines
}

// Seen is one request as an origin understood it.
type Seen struct {
	Method, Target string
	Head           string // as it came
	Body           string
	Broken         bool // its end has not come, or never will
}

// String is what an origin answers with.
func (s Seen) String() string {
	text := s.Method + " " + s.Target
	if s.Body != "" {
		text += " " + s.Body
	}
	return text
}

// Field returns the values of a field.
func (s Seen) Field(name string) (values []string) {
	for line := range strings.SplitSeq(s.Head, "\r\n") {
		if n, v, ok := strings.Cut(line, ":"); ok && strings.EqualFold(n, name) {
			values = append(values, strings.TrimSpace(v))
		}
	}
	return values
}

// Witness is an origin that writes down each request as one reading sees it,
// and answers with the request's [Seen.String]. Its Script is for [Options].
type Witness struct {
	reading Reading

	mu     sync.Mutex // guards what follows
	seen   []Seen
	faults []string
}

// NewWitness returns an origin that reads so.
func NewWitness(r Reading) *Witness { return &Witness{reading: r} }

// Seen is every request until now, in the order in which their heads came.
func (w *Witness) Seen() []Seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// Forget starts the list of what was seen anew.
func (w *Witness) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen, w.faults = nil, nil
}

// Faults is what the strict reading found ambiguous or malformed.
func (w *Witness) Faults() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.faults)
}

// Script serves one connection.
func (w *Witness) Script(c *Conn) {
	for {
		c.SetDeadline(time.Now().Add(patience))
		head, lines := w.head(c.R)
		if len(lines) == 0 {
			return
		}
		s, framing := w.understand(head, lines)
		s.Broken = true
		at := w.note(s)
		var whole bool
		s.Body, whole = w.body(c.R, framing)
		s.Broken = !whole
		w.set(at, s)
		if !whole {
			return
		}
		text := s.String()
		answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", len(text))
		if s.Method != "HEAD" {
			answer += text
		}
		if _, err := io.WriteString(c.Conn, answer); err != nil {
			return
		}
		if slices.Contains(s.Field("Connection"), "close") {
			return
		}
	}
}

func (w *Witness) note(s Seen) (at int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, s)
	return len(w.seen) - 1
}

func (w *Witness) set(at int, s Seen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at < len(w.seen) { // else it is forgotten
		w.seen[at] = s
	}
}

func (w *Witness) fault(format string, args ...any) {
	if !w.reading.Strict() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// head reads up to an empty line. It returns no lines where the connection
// ends before.
func (w *Witness) head(r *bufio.Reader) (head string, lines []string) {
	var raw, line bytes.Buffer
	for {
		b, err := r.ReadByte()
		if err != nil {
			if raw.Len() > 0 {
				w.fault("the connection ended within a head: %q", raw.String())
			}
			return "", nil
		}
		raw.WriteByte(b)
		ends := b == '\n'
		if w.reading.LooseLines && b == '\r' {
			next, _ := r.Peek(1)
			ends = len(next) > 0 && next[0] != '\n'
		}
		if !ends {
			line.WriteByte(b)
			continue
		}
		text := line.String()
		line.Reset()
		if cut, ok := strings.CutSuffix(text, "\r"); ok {
			text = cut
		} else {
			w.fault("a line ends without CR: %q", raw.String())
		}
		if text == "" {
			return raw.String(), lines
		}
		lines = append(lines, text)
	}
}

// framing is where a request ends.
type framing struct {
	chunked bool
	length  int64
}

func (w *Witness) understand(head string, lines []string) (s Seen, f framing) {
	s = Seen{Head: head}
	parts := strings.Split(lines[0], " ")
	if len(parts) != 3 || parts[2] != "HTTP/1.1" || !isToken(parts[0]) || parts[1] == "" {
		w.fault("request line %q", lines[0])
	}
	s.Method = parts[0]
	if len(parts) > 1 {
		s.Target = parts[1]
	}
	var lengths, codings, hosts []string
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			w.fault("field line %q", line)
		}
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.Trim(value, " \t")
		switch {
		case name == "content-length":
			lengths = append(lengths, value)
		case name == "transfer-encoding":
			codings = append(codings, value)
		case name == "host":
			hosts = append(hosts, value)
		case w.reading.ChunkedAnyhow && strings.Contains(line, "chunked") && strings.Contains(strings.ToLower(line), "encoding"):
			codings = append(codings, "chunked")
		}
	}
	if len(lengths)+len(codings) > 1 || len(codings) > 0 && codings[0] != "chunked" {
		w.fault("Content-Length %q with Transfer-Encoding %q", lengths, codings)
	}
	if len(hosts) != 1 {
		w.fault("Host %q", hosts)
	}
	if len(lengths) > 0 {
		n, err := strconv.ParseInt(lengths[0], 10, 64)
		if err != nil || n < 0 {
			w.fault("Content-Length %q", lengths[0])
		}
		f.length = n
	}
	f.chunked = len(codings) > 0 && strings.Contains(strings.ToLower(strings.Join(codings, ",")), "chunked")
	if w.reading.LengthWins && len(lengths) > 0 {
		f.chunked = false
	}
	if w.reading.NoBodyOnGet && (s.Method == "GET" || s.Method == "HEAD" || s.Method == "DELETE") {
		f = framing{}
	}
	return s, f
}

// body reads a body. It reports false where it does not end as it should.
func (w *Witness) body(r *bufio.Reader, f framing) (string, bool) {
	var all strings.Builder
	if !f.chunked {
		_, err := io.CopyN(&all, r, f.length)
		return all.String(), err == nil
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return all.String(), false
		}
		digits, ok := strings.CutSuffix(line, "\r\n")
		size, err := strconv.ParseUint(digits, 16, 31)
		if !ok || err != nil {
			w.fault("chunk size line %q", line)
			return all.String(), false
		}
		if size == 0 {
			break
		}
		if _, err := io.CopyN(&all, r, int64(size)); err != nil {
			return all.String(), false
		}
		var end [2]byte
		if _, err := io.ReadFull(r, end[:]); err != nil || string(end[:]) != "\r\n" {
			w.fault("chunk ends with %q", end)
			return all.String(), false
		}
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return all.String(), false
		}
		if line == "\r\n" {
			return all.String(), true
		}
		name, _, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) {
			w.fault("trailer line %q", line)
		}
		switch strings.ToLower(name) {
		case "content-length", "transfer-encoding", "trailer", "host", "cookie", "authorization", "connection":
			w.fault("%s in a trailer", name)
		}
	}
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	})
}
