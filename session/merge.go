package session

import (
	"slices"
	"strings"
	"time"
)

// Request is what decides which cookies a request may carry.
type Request struct {
	Host   string // canonical, as TLS verified it
	Path   string // as sent, without the query
	Secure bool   // over TLS
	Whose  Whose
	// Logout: the request ends the login; it leaves without any shared
	// cookie, the client's own copies cut too.
	Logout bool
	Now    time.Time
}

// Merged is the Cookie header of one request, and how it came about.
type Merged struct {
	Header   string // "" for none
	Injected int    // cookies of the jars in it
	Withheld int    // matching cookies of the jars left out because of who made the request, or since it ends the login
	Dropped  int    // matching cookies of the jars left out by MaxHeader
}

// MaxHeader bounds the Cookie header: origins refuse more. The client's own
// cookies are never dropped, so its header alone may be longer.
const MaxHeader = 8 << 10

// Merge writes a request's Cookie header from the client's own lines and the
// jars. shared and private may be nil. Lines are joined with "; ", since
// HTTP/2 sends crumbs (RFC 9113 section 8.2.3).
//
// The client's cookies keep their places, and those whose name no matching
// cookie of the shared jar has pass byte for byte. Of a name that the jar has,
// the first copy is replaced by the jar's values and the other copies are cut;
// with ClientWins the copies stay and the jar's values do not go. Other names
// of the jars follow, in RFC 6265bis order: longer paths first, then older
// cookies. A private jar only adds: a client that sends a private name keeps
// that cookie itself.
//
// Names that were revoked are cut and, when the request ends the login, all
// names of the shared jar. What may not go with a foreign page's request,
// anything with a Cross one and Strict cookies with a CrossNavigation, goes only
// in the place of a copy that the client sent, whatever its SameSite: the
// browser has decided that it goes. Over MaxHeader, cookies of the jars are dropped from the end of
// RFC order, those of a login last.
//
// A client's single line that needs no change is returned itself.
func Merge(client []string, r Request, shared, private *Jar, p *Policy) Merged {
	m := merger{matcher: newMatcher(&r, p)}
	var sharedSpace, privateSpace [128]place
	m.shared = newSource(shared, sharedSpace[:])
	m.private = newSource(private, privateSpace[:])
	m.match(&m.shared, false)
	m.match(&m.private, true)

	var space [24]piece
	pieces := space[:0]
	for _, line := range client {
		pieces = m.clientLine(pieces, line)
	}
	m.withheld += m.shared.held + m.private.held
	if !m.changed && len(client) == 1 && m.waiting() == 0 {
		return Merged{Header: client[0], Injected: m.injected, Withheld: m.withheld}
	}
	size := headerLen(pieces) + m.shared.size + m.private.size
	if size > MaxHeader {
		for m.waiting() > 0 {
			text, c := m.take()
			pieces = append(pieces, piece{text[len(separator):], c})
		}
		pieces = m.fit(pieces)
		size = headerLen(pieces)
	}
	header := m.write(pieces, size)
	return Merged{header, m.injected, m.withheld, m.dropped}
}

// merger is one Merge under way. The pieces are handed from step to step beside
// it: what methods store in it would have to be on the heap.
type merger struct {
	matcher
	shared, private source

	changed                     bool // the header is not what the client sent
	injected, withheld, dropped int  // as in Merged
}

// source is a jar and what becomes of its cookies.
type source struct {
	jar     *Jar
	place   []place // of each cookie
	held    int     // how many are held
	waiting int     // how many wait
	size    int     // of those, with their separators
	from    int     // none waits before it
}

type place uint8

const (
	stays   place = iota // does not match, or may not go
	held                 // goes only in the place of a copy that the client sent
	waits                // goes behind the client's cookies, unless the client sent the name
	settled              // its name is in the header already
)

// piece is a part of the header: a run of the client's cookies as they came,
// or one cookie of a jar.
type piece struct {
	text   string
	cookie *Cookie // nil for the client's
}

var emptyJar Jar

func newSource(j *Jar, space []place) source {
	if j == nil {
		j = &emptyJar
	}
	if len(j.sent) > len(space) {
		space = make([]place, len(j.sent))
	}
	return source{jar: j, place: space[:len(j.sent)]}
}

// settle marks the cookie i as dealt with, if it waits or is held.
func (s *source) settle(i int32) bool {
	switch s.place[i] {
	case held:
		s.held--
	case waits:
		s.waiting--
		s.size -= len(s.jar.sent[i].text)
	default:
		return false
	}
	s.place[i] = settled
	return true
}

// settleName marks all cookies of a name.
func (s *source) settleName(name string) {
	i, ok := s.jar.first[name]
	for ok && i >= 0 {
		s.settle(i)
		i = s.jar.sent[i].next
	}
}

// next is the first cookie that waits, or -1.
func (s *source) next() int {
	if s.waiting == 0 {
		return -1
	}
	for s.place[s.from] != waits {
		s.from++
	}
	return s.from
}

func (m *merger) waiting() int { return m.shared.waiting + m.private.waiting }

// match finds the cookies of a jar that go.
func (m *merger) match(s *source, private bool) {
	for i := range s.jar.sent {
		c := &s.jar.sent[i]
		switch why := m.judge(c, private); {
		case why == foreignPage, why == goes && m.r.Whose == Cross:
			s.place[i] = held
			s.held++
		case why == goes:
			s.place[i] = waits
			s.waiting++
			s.size += len(c.text)
		case why == endsLogin:
			m.withheld++
		}
	}
}

// clientLine splits one of the client's lines into runs of its own cookies,
// and puts the jar's values in the place of its copies.
func (m *merger) clientLine(pieces []piece, line string) []piece {
	start, end := -1, -1 // of the run under way
	for at := 0; at <= len(line); {
		lo, hi := at, len(line)
		if i := strings.IndexByte(line[at:], ';'); i >= 0 {
			hi = at + i
		}
		at = hi + 1
		for lo < hi && (line[lo] == ' ' || line[lo] == '\t') {
			lo++
		}
		for lo < hi && (line[hi-1] == ' ' || line[hi-1] == '\t') {
			hi--
		}
		if lo == hi {
			continue
		}
		if m.keeps(line[lo:hi]) {
			if start < 0 {
				start = lo
			}
			end = hi
			continue
		}
		m.changed = true
		if start >= 0 {
			pieces = append(pieces, piece{text: line[start:end]})
			start = -1
		}
		pieces = m.replace(pieces, line[lo:hi])
	}
	if start >= 0 {
		pieces = append(pieces, piece{text: line[start:end]})
	}
	return pieces
}

// keeps says whether the client's pair may stay as it is: the shared jar has
// nothing to say about it, or says the same.
func (m *merger) keeps(pair string) bool {
	name := pairName(pair)
	jar := m.shared.jar
	if len(jar.revoked) > 0 {
		if _, revoked := slices.BinarySearch(jar.revoked, name); revoked {
			return false
		}
	}
	if m.private.waiting+m.private.held > 0 {
		m.private.settleName(name)
	}
	i, ok := jar.first[name]
	switch {
	case !ok:
		return true
	case m.r.Logout:
		return !m.policy.Shared(name)
	}
	values, only := 0, int32(0)
	for ; i >= 0; i = jar.sent[i].next {
		if m.shared.place[i] != stays {
			values, only = values+1, i
		}
	}
	switch {
	case values == 0:
		return true
	case m.policy.ClientWins:
		m.shared.settleName(name)
		return true
	case values == 1 && jar.sent[only].pair() == pair && m.shared.settle(only):
		m.injected++
		return true
	}
	return false
}

// replace puts the jar's values in the place of the client's pair: all of the
// name in the place of the first copy, or one in the place of each where a
// foreign page made the request, since the browser lets no more go. There are
// none for a revoked name, a logout, or a copy too many.
func (m *merger) replace(pieces []piece, pair string) []piece {
	jar := m.shared.jar
	i, ok := jar.first[pairName(pair)]
	if !ok {
		return pieces
	}
	if m.r.Whose != Own {
		i = m.mostLenient(i)
	}
	for i >= 0 {
		if m.shared.settle(i) {
			m.injected++
			pieces = append(pieces, piece{jar.sent[i].pair(), &jar.cookies[i]})
		}
		if m.r.Whose != Own {
			break
		}
		i = jar.sent[i].next
	}
	return pieces
}

// mostLenient is, of the cookies of one name from i on that are not settled,
// the first whose SameSite a browser would let go soonest; -1 for none.
func (m *merger) mostLenient(i int32) int32 {
	best := int32(-1)
	for ; i >= 0; i = m.shared.jar.sent[i].next {
		p := m.shared.place[i]
		if (p == held || p == waits) && (best < 0 || m.strictness(i) < m.strictness(best)) {
			best = i
		}
	}
	return best
}

func (m *merger) strictness(i int32) int {
	switch m.shared.jar.sent[i].sameSite {
	case SameSiteNone:
		return 0
	case SameSiteStrict:
		return 2
	}
	return 1 // Lax, and what names none
}

// take settles the first cookie that waits, in RFC order across the jars, and
// returns its text.
func (m *merger) take() (text string, c *Cookie) {
	s, p := m.shared.next(), m.private.next()
	from, i := &m.shared, s
	if s < 0 || p >= 0 && compareOrder(&m.shared.jar.cookies[s], &m.private.jar.cookies[p]) > 0 {
		from, i = &m.private, p
	}
	from.settle(int32(i))
	m.injected++
	return from.jar.sent[i].text, &from.jar.cookies[i]
}

// write joins the pieces and the cookies that wait, size bytes together.
func (m *merger) write(pieces []piece, size int) string {
	var b strings.Builder
	b.Grow(size)
	for i := range pieces {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(pieces[i].text)
	}
	for m.waiting() > 0 {
		text, _ := m.take()
		if b.Len() == 0 {
			text = text[len(separator):]
		}
		b.WriteString(text)
	}
	return b.String()
}

// fit drops cookies of the jars until the header is no longer than MaxHeader.
func (m *merger) fit(pieces []piece) []piece {
	var jars []*Cookie
	for _, p := range pieces {
		if p.cookie != nil {
			jars = append(jars, p.cookie)
		}
	}
	slices.SortFunc(jars, func(a, b *Cookie) int {
		if a.ofLogin() != b.ofLogin() {
			if b.ofLogin() {
				return -1
			}
			return 1
		}
		return compareOrder(b, a)
	})
	over := headerLen(pieces) - MaxHeader
	for _, c := range jars {
		if over <= 0 {
			break
		}
		at := slices.IndexFunc(pieces, func(p piece) bool { return p.cookie == c })
		over -= len(pieces[at].text) + len(separator)
		pieces = slices.Delete(pieces, at, at+1)
		m.injected--
		m.dropped++
	}
	return pieces
}

func (c *Cookie) ofLogin() bool { return c.Login > 0 }

func headerLen(pieces []piece) int {
	n := max(0, len(pieces)-1) * len(separator)
	for i := range pieces {
		n += len(pieces[i].text)
	}
	return n
}

// pairName is the name in a Cookie header's pair; a pair without "=" is a
// nameless cookie's value.
func pairName(pair string) string {
	i := strings.IndexByte(pair, '=')
	if i < 0 {
		return ""
	}
	return trimSpace(pair[:i])
}
