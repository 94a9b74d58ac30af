package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// encoding is the first byte of an encoded jar.
const encoding = 1

// The flags of an encoded cookie or mark.
const (
	flagHostOnly = 1 << iota
	flagSecure
	flagHTTPOnly
	flagPartitioned
	flagExpires
	flagLogin
	flagPast
)

var errEncoding = errors.New("not an encoded jar")

// MarshalBinary and UnmarshalBinary are the embedded store's form of a jar;
// values keep their bytes, UTF-8 or not.
func (j *Jar) MarshalBinary() ([]byte, error) {
	b := make([]byte, 0, 64+96*len(j.cookies)+64*len(j.marks))
	b = append(b, encoding)
	b = binary.AppendVarint(b, j.version)
	b = binary.AppendVarint(b, j.floor)
	b = appendTime(b, j.created)
	b = binary.AppendUvarint(b, uint64(len(j.cookies)))
	for i := range j.cookies {
		b = appendCookie(b, &j.cookies[i])
	}
	b = binary.AppendUvarint(b, uint64(len(j.marks)))
	for i := range j.marks {
		b = appendMark(b, &j.marks[i])
	}
	b = binary.AppendUvarint(b, uint64(len(j.revoked)))
	for _, name := range j.revoked {
		b = appendString(b, name)
	}
	return b, nil
}

// UnmarshalBinary reads what MarshalBinary wrote. Anything else is an error,
// and leaves j as it was.
func (j *Jar) UnmarshalBinary(b []byte) error {
	d := decoder{b: b}
	if d.byte() != encoding {
		return fmt.Errorf("unmarshal jar: %w", errEncoding)
	}
	p := Parts{Version: d.varint(), Floor: d.varint(), Created: d.time()}
	for n := d.count(); n > 0 && !d.failed; n-- {
		p.Cookies = append(p.Cookies, d.cookie())
	}
	for n := d.count(); n > 0 && !d.failed; n-- {
		p.Marks = append(p.Marks, d.mark())
	}
	for n := d.count(); n > 0 && !d.failed; n-- {
		p.Revoked = append(p.Revoked, d.string())
	}
	if !d.done() {
		return fmt.Errorf("unmarshal jar: %w", errEncoding)
	}
	next, err := NewJar(p)
	if err != nil {
		return fmt.Errorf("unmarshal jar: %w", errEncoding)
	}
	*j = *next
	return nil
}

// MarshalBinary and UnmarshalBinary are the form of one cookie in a store that
// keeps each for itself.
func (c *Cookie) MarshalBinary() ([]byte, error) {
	return appendCookie([]byte{encoding}, c), nil
}

// UnmarshalBinary reads what MarshalBinary wrote. Anything else is an error,
// and leaves c as it was; whether the cookie may be in a jar, [NewJar] says.
func (c *Cookie) UnmarshalBinary(b []byte) error {
	d := decoder{b: b}
	if d.byte() != encoding {
		return fmt.Errorf("unmarshal cookie: %w", errEncoding)
	}
	next := d.cookie()
	if !d.done() {
		return fmt.Errorf("unmarshal cookie: %w", errEncoding)
	}
	*c = next
	return nil
}

// MarshalBinary and UnmarshalBinary are the form of one mark.
func (m *Mark) MarshalBinary() ([]byte, error) {
	return appendMark([]byte{encoding}, m), nil
}

// UnmarshalBinary reads what MarshalBinary wrote. Anything else is an error,
// and leaves m as it was.
func (m *Mark) UnmarshalBinary(b []byte) error {
	d := decoder{b: b}
	if d.byte() != encoding {
		return fmt.Errorf("unmarshal mark: %w", errEncoding)
	}
	next := d.mark()
	if !d.done() {
		return fmt.Errorf("unmarshal mark: %w", errEncoding)
	}
	*m = next
	return nil
}

func appendCookie(b []byte, c *Cookie) []byte {
	flags := flagIf(flagHostOnly, c.HostOnly) | flagIf(flagSecure, c.Secure) | flagIf(flagHTTPOnly, c.HTTPOnly) |
		flagIf(flagPartitioned, c.Partitioned) | flagIf(flagExpires, !c.Expires.IsZero()) | flagIf(flagLogin, c.Login != 0) | flagIf(flagPast, c.Past[0] != 0)
	b = append(b, flags, byte(c.SameSite), byte(c.Writer))
	b = binary.AppendVarint(b, c.Version)
	if c.Login != 0 {
		b = binary.AppendVarint(b, c.Login)
	}
	if !c.Expires.IsZero() {
		b = appendTime(b, c.Expires)
	}
	b = appendTime(appendTime(b, c.Created), c.Used)
	for _, s := range []string{c.Name, c.Value, c.Domain, c.Path, c.Priority} {
		b = appendString(b, s)
	}
	if c.Past[0] != 0 {
		b = appendPast(b, c.Past[:])
	}
	return b
}

func appendPast(b []byte, past []uint32) []byte {
	if n := slices.Index(past, 0); n >= 0 {
		past = past[:n]
	}
	b = binary.AppendUvarint(b, uint64(len(past)))
	for _, hash := range past {
		b = binary.BigEndian.AppendUint32(b, hash)
	}
	return b
}

func appendMark(b []byte, m *Mark) []byte {
	b = append(b, flagIf(flagHostOnly, m.HostOnly)|flagIf(flagPartitioned, m.Partitioned), byte(m.Writer))
	b = binary.AppendVarint(b, m.Version)
	for _, s := range []string{m.Name, m.Domain, m.Path} {
		b = appendString(b, s)
	}
	return b
}

func flagIf(flag byte, set bool) byte {
	if set {
		return flag
	}
	return 0
}

// appendTime writes microseconds since 1970; no jar has a time of 0 but the
// zero time.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.AppendVarint(b, 0)
	}
	return binary.AppendVarint(b, t.UnixMicro())
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decoder reads from b. After a fault it returns zeros, and failed stays set.
type decoder struct {
	b      []byte
	failed bool
}

func (d *decoder) take(n int, ok bool) []byte {
	if !ok || d.failed || n > len(d.b) {
		d.failed, d.b = true, nil
		return nil
	}
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) byte() byte {
	if b := d.take(1, true); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	d.take(n, n > 0)
	return v
}

// done says whether all of b was read, without a fault.
func (d *decoder) done() bool { return !d.failed && len(d.b) == 0 }

// count is a number of things to follow, each at least a byte long.
func (d *decoder) count() int {
	v, n := binary.Uvarint(d.b)
	d.take(n, n > 0)
	if v > uint64(len(d.b)) {
		d.take(0, false)
		return 0
	}
	return int(v)
}

func (d *decoder) string() string {
	n := d.count()
	return string(d.take(n, true))
}

func (d *decoder) time() time.Time {
	if micro := d.varint(); micro != 0 {
		return microTime(micro)
	}
	return time.Time{}
}

func (d *decoder) cookie() Cookie {
	flags := d.byte()
	c := Cookie{
		HostOnly:    flags&flagHostOnly != 0,
		Secure:      flags&flagSecure != 0,
		HTTPOnly:    flags&flagHTTPOnly != 0,
		Partitioned: flags&flagPartitioned != 0,
		SameSite:    SameSite(d.byte()),
		Writer:      Writer(d.byte()),
		Version:     d.varint(),
	}
	if flags&flagLogin != 0 {
		c.Login = d.varint()
	}
	if flags&flagExpires != 0 {
		c.Expires = d.time()
	}
	c.Created, c.Used = d.time(), d.time()
	c.Name, c.Value, c.Domain, c.Path, c.Priority = d.string(), d.string(), d.string(), d.string(), d.string()
	if flags&flagPast != 0 {
		d.past(&c.Past)
	}
	return c
}

func (d *decoder) past(past *[maxPast]uint32) {
	n := d.count()
	d.take(0, n > 0 && n <= maxPast)
	for i := 0; i < n && !d.failed; i++ {
		if hash := d.take(4, true); hash != nil {
			past[i] = binary.BigEndian.Uint32(hash)
			d.take(0, past[i] != 0)
		}
	}
}

func (d *decoder) mark() Mark {
	flags := d.byte()
	m := Mark{Writer: Writer(d.byte()), Version: d.varint()}
	m.HostOnly, m.Partitioned = flags&flagHostOnly != 0, flags&flagPartitioned != 0
	m.Name, m.Domain, m.Path = d.string(), d.string(), d.string()
	return m
}
