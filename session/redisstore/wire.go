package redisstore

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/redisstore/seal"
)

// The first byte of a field in a jar's hash says what it holds.
const (
	cookieField = 'c'
	markField   = 'm'
	nameField   = 'n'
)

var errReply = errors.New("the script's answer is of another version; all proxies on one Redis run the same one")

// fieldOf is the field of a part in a jar's hash: short, and silent of names.
func fieldOf(kind byte, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_ = binary.Write(h, binary.BigEndian, uint64(len(p))) // a hash's Write has no errors
		h.Write([]byte(p))
	}
	return string(kind) + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

func fieldOfIdentity(kind byte, id *session.Identity) string {
	return fieldOf(kind, id.Name, id.Domain, id.Path, strconv.FormatBool(id.HostOnly), strconv.FormatBool(id.Partitioned))
}

// parser reads what a script answered. After a fault it returns zeros.
type parser struct {
	items []any
	err   error
}

func newParser(reply any) *parser {
	items, ok := reply.([]any)
	p := &parser{items: items}
	if !ok {
		p.err = errReply
	}
	return p
}

func (p *parser) next() any {
	if p.err != nil || len(p.items) == 0 {
		p.err = cmp.Or(p.err, errReply)
		return nil
	}
	item := p.items[0]
	p.items = p.items[1:]
	return item
}

func (p *parser) string() string {
	s, ok := p.next().(string)
	if !ok && p.err == nil {
		p.err = errReply
	}
	return s
}

func (p *parser) int() int64 {
	switch v := p.next().(type) {
	case int64:
		return v
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		p.err = cmp.Or(p.err, err)
		return n
	}
	p.err = cmp.Or(p.err, errReply)
	return 0
}

// time is what TIME says, in microseconds.
func (p *parser) time() int64 { return p.int()*1e6 + p.int() }

// hash reads a list of fields and values.
func (p *parser) hash() map[string]string {
	inner := newParser(p.next())
	hash := make(map[string]string, len(inner.items)/2)
	for len(inner.items) > 0 && inner.err == nil {
		field := inner.string()
		hash[field] = inner.string()
	}
	p.err = cmp.Or(p.err, inner.err)
	return hash
}

// endAfter is when a key ends that has ttl ms left at now; 0 where it has no
// end, or is not there.
func endAfter(now, ttl int64) int64 {
	if ttl < 0 {
		return 0
	}
	return (now/1000 + ttl) * 1000
}

// decodeWhole reads all there is of a session.
func (s *Store) decodeWhole(n names, now int64, p *parser) (*state, error) {
	ttl, digest := p.int(), p.string()
	head, jar, mirror := p.hash(), p.hash(), p.hash()
	if p.err != nil {
		return nil, p.err
	}
	st := &state{token: head["token"], digest: digest, mirrorEnds: endAfter(now, ttl)}
	if st.token != "" {
		var err error
		if st.record, st.names, err = s.decodeJar(n, head, jar); err != nil {
			return nil, err
		}
	}
	// A mirror that is left when the session is over was made by a worker.
	left := st.record != nil && now > st.record.Ends+2000 && len(mirror) > 0
	if !s.silent && (left || !st.mirrors(mirror)) {
		st.mirror = mirror
	}
	return st, nil
}

// mirrors says whether the mirror is as it was last written.
func (st *state) mirrors(mirror map[string]string) bool {
	there := 0
	for _, n := range st.names {
		if n.there {
			there++
		}
	}
	if there != len(mirror) {
		return false
	}
	for key, value := range mirror {
		if !st.names[key].has(hashValue(value)) {
			return false
		}
	}
	return true
}

// decodeJar reads the companions of a mirror.
func (s *Store) decodeJar(n names, head, jar map[string]string) (*session.Record, map[string]name, error) {
	var parts session.Parts
	h := newParser([]any{head["version"], head["floor"], head["created"], head["used"], head["ends"]})
	parts.Version, parts.Floor = h.int(), h.int()
	if created := h.int(); created != 0 {
		parts.Created = time.UnixMicro(created).UTC()
	}
	r := &session.Record{Used: h.int(), Ends: h.int()}
	if h.err != nil {
		return nil, nil, fmt.Errorf("%s: %w", n.state, seal.ErrNotOurs)
	}
	if stored := head["revoked"]; stored != "" {
		value, err := s.sealer.Open(n.state, "revoked", stored)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", n.state, err)
		}
		if parts.Revoked, err = decodeStrings(value); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", n.state, err)
		}
	}
	all := make(map[string]name)
	for field, stored := range jar {
		value, err := s.sealer.Open(n.jar, field, stored)
		if err == nil {
			err = decodePart(&parts, all, field[0], value)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", n.jar, err)
		}
	}
	slices.SortFunc(parts.Cookies, func(a, b session.Cookie) int { return cmp.Compare(a.Version, b.Version) })
	slices.SortFunc(parts.Marks, func(a, b session.Mark) int { return cmp.Compare(a.Version, b.Version) })
	made, err := session.NewJar(parts)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", n.jar, err)
	}
	r.Jar = made
	return r, all, nil
}

func decodePart(parts *session.Parts, all map[string]name, kind byte, value []byte) error {
	switch kind {
	case cookieField:
		var c session.Cookie
		if err := c.UnmarshalBinary(value); err != nil {
			return err
		}
		parts.Cookies = append(parts.Cookies, c)
	case markField:
		var m session.Mark
		if err := m.UnmarshalBinary(value); err != nil {
			return err
		}
		parts.Marks = append(parts.Marks, m)
	case nameField:
		key, n, err := decodeName(value)
		if err != nil {
			return err
		}
		all[key] = n
	default:
		return seal.ErrNotOurs
	}
	return nil
}

// encodeName is the stored form of a name in the mirror.
func encodeName(key string, n name) []byte {
	there := byte(0)
	if n.there {
		there = 1
	}
	b := append(binary.AppendUvarint(nil, uint64(n.version)), there, byte(len(n.values)))
	for _, v := range n.values {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return append(b, key...)
}

func decodeName(b []byte) (key string, n name, err error) {
	version, size := binary.Uvarint(b)
	if size <= 0 || len(b) < size+2 {
		return "", name{}, seal.ErrNotOurs
	}
	n.version, n.there = int64(version), b[size] == 1
	count := int(b[size+1])
	if b = b[size+2:]; count == 0 || len(b) < 8*count {
		return "", name{}, seal.ErrNotOurs
	}
	for i := range count {
		n.values = append(n.values, binary.BigEndian.Uint64(b[8*i:]))
	}
	return string(b[8*count:]), n, nil
}

func encodeStrings(list []string) []byte {
	var b []byte
	for _, s := range list {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return b
}

func decodeStrings(b []byte) (list []string, err error) {
	for len(b) > 0 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return nil, seal.ErrNotOurs
		}
		list = append(list, string(b[size:size+int(n)]))
		b = b[size+int(n):]
	}
	return list, nil
}
