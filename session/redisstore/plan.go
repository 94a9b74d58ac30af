package redisstore

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"

	"github.com/sessionproxy/sessionproxy/session"
)

// plan is one write of a session: what makes the next state of the one it was
// made from.
type plan struct {
	from, next *state
	cut        int64 // private jars that were last used before are removed; 0: none

	mirrorGone, mirrorSet, jarGone, jarSet, head []any
}

// plan compares. from is what Redis holds, and record what it is to hold.
func (s *Store) plan(key session.Key, n names, from *state, record *session.Record, cut, now int64) *plan {
	p := &plan{from: from, cut: cut}
	mirror := map[string]string{}
	if !s.silent && record.Live(now) {
		site := s.site(key.Site)
		mirror = mirrorOf(record.Jar, key.Site, &site, now)
	}
	p.next = &state{record: record, token: newToken(), names: mirrored(from.names, mirror, record.Jar.Version())}
	if from.record != nil && from.record.Jar == record.Jar && from.mirror == nil {
		p.next.token = from.token // only its life is another
	}
	if len(mirror) > 0 {
		p.next.mirrorEnds = record.Ends
	}
	p.mirrorChanges(mirror)
	p.jarChanges(s, n)
	p.head = s.head(n, p.next)
	return p
}

// newToken names a state. No two proxies give the same.
func newToken() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func (p *plan) mirrorChanges(mirror map[string]string) {
	there := func(key string) bool { return p.from.names[key].there }
	same := func(key, value string) bool { return p.from.names[key].has(hashValue(value)) }
	gone := func(key string) {
		if _, keep := mirror[key]; !keep {
			p.mirrorGone = append(p.mirrorGone, key)
		}
	}
	if actual := p.from.mirror; actual != nil {
		there = func(key string) bool { _, ok := actual[key]; return ok }
		same = func(key, value string) bool { return there(key) && actual[key] == value }
		for key := range actual {
			gone(key)
		}
	} else {
		for key := range p.from.names {
			if there(key) {
				gone(key)
			}
		}
	}
	for key, value := range mirror {
		if !same(key, value) {
			p.mirrorSet = append(p.mirrorSet, key, value)
		}
	}
}

// jarChanges finds the parts that differ. Each change of a cookie gives it
// another version.
func (p *plan) jarChanges(s *Store, n names) {
	var before session.Parts
	if p.from.record != nil {
		before = p.from.record.Jar.Parts()
	}
	after := p.next.record.Jar.Parts()

	cookies := make(map[session.Identity]int64, len(before.Cookies))
	for i := range before.Cookies {
		cookies[before.Cookies[i].Identity()] = before.Cookies[i].Version
	}
	for i := range after.Cookies {
		c := &after.Cookies[i]
		id := c.Identity()
		if version, have := cookies[id]; !have || version != c.Version {
			value, _ := c.MarshalBinary() // it has no errors
			p.set(s, n, fieldOfIdentity(cookieField, &id), value)
		}
		delete(cookies, id)
	}
	for id := range cookies {
		p.jarGone = append(p.jarGone, fieldOfIdentity(cookieField, &id))
	}

	marks := make(map[session.Identity]int64, len(before.Marks))
	for _, m := range before.Marks {
		marks[m.Identity] = m.Version
	}
	for i := range after.Marks {
		m := &after.Marks[i]
		if version, have := marks[m.Identity]; !have || version != m.Version {
			value, _ := m.MarshalBinary() // it has no errors
			p.set(s, n, fieldOfIdentity(markField, &m.Identity), value)
		}
		delete(marks, m.Identity)
	}
	for id := range marks {
		p.jarGone = append(p.jarGone, fieldOfIdentity(markField, &id))
	}

	for key, now := range p.next.names {
		if old, have := p.from.names[key]; !have || old.version != now.version || old.there != now.there {
			p.set(s, n, fieldOf(nameField, key), encodeName(key, now))
		}
	}
	for key := range p.from.names {
		if _, keep := p.next.names[key]; !keep {
			p.jarGone = append(p.jarGone, fieldOf(nameField, key))
		}
	}
}

func (p *plan) set(s *Store, n names, field string, value []byte) {
	p.jarSet = append(p.jarSet, field, s.sealer.Seal(n.jar, field, value))
}

// head are the fields of a state's hash.
func (s *Store) head(n names, st *state) []any {
	parts := st.record.Jar.Parts()
	created := int64(0)
	if !parts.Created.IsZero() {
		created = parts.Created.UnixMicro()
	}
	return []any{
		"token", st.token, "version", parts.Version, "floor", parts.Floor, "created", created,
		"used", st.record.Used, "ends", st.record.Ends,
		"revoked", s.sealer.Seal(n.state, "revoked", encodeStrings(parts.Revoked)),
	}
}

// args are the script's arguments.
func (p *plan) args(n names) []any {
	cut := ""
	if p.cut != 0 {
		cut = strconv.FormatInt(p.cut, 10)
	}
	ends := p.next.record.Ends
	args := []any{p.from.token, p.from.digest, millis(p.from.mirrorEnds), millis(ends), millis(ends + companionLife), cut, n.private}
	for _, list := range [][]any{p.mirrorGone, p.mirrorSet, p.jarGone, p.jarSet, p.head} {
		args = append(append(args, len(list)), list...)
	}
	return args
}

// millis is the first millisecond that is not before a time in microseconds.
func millis(micro int64) int64 { return (micro + 999) / 1000 }
