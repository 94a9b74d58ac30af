package session

import (
	"strings"
	"time"
)

// parseDate reads a cookie-date: RFC 6265bis section 5.1.1 as Chromium does it.
// Tokens are told apart by their first byte instead of by trying each
// production, numbers are digits and nothing else, and years before 1601 or of
// five digits are years. ok is false where there is no such date; a cookie is a
// session cookie then.
func parseDate(s string) (t time.Time, ok bool) {
	const (
		day = 1 << iota
		month
		year
		clock
	)
	var d, m, y, found int
	var hms [3]int
	for i := 0; i < len(s); {
		if dateDelimiter(s[i]) {
			i++
			continue
		}
		start := i
		for i < len(s) && !dateDelimiter(s[i]) {
			i++
		}
		token := s[start:i]
		n, number := digits(token)
		switch {
		case token[0] < '0' || token[0] > '9':
			if n := monthOf(token); found&month == 0 && n != 0 {
				m, found = n, found|month
			}
		case strings.IndexByte(token, ':') >= 0:
			if v, fits := parseClock(token); found&clock == 0 && fits {
				hms, found = v, found|clock
			}
		case !number:
		case found&day == 0 && len(token) <= 2:
			d, found = n, found|day
		case found&year == 0 && len(token) <= 5:
			y, found = n, found|year
		}
	}
	if found != day|month|year|clock {
		return time.Time{}, false
	}
	switch {
	case y <= 69:
		y += 2000
	case y <= 99:
		y += 1900
	}
	t = time.Date(y, time.Month(m), d, hms[0], hms[1], hms[2], 0, time.UTC)
	// time.Date carries the 31st of April, or hour 24, into what follows.
	hh, mm, ss := t.Clock()
	return t, t.Day() == d && hms == [3]int{hh, mm, ss}
}

func dateDelimiter(c byte) bool {
	return c == '\t' || ' ' <= c && c <= '/' || ';' <= c && c <= '@' || '[' <= c && c <= '`' || '{' <= c && c <= '~'
}

// monthOf is the month, from 1, whose first three letters token begins with.
func monthOf(token string) int {
	const months = "janfebmaraprmayjunjulaugsepoctnovdec"
	if len(token) < 3 {
		return 0
	}
	for i := 0; i < len(months); i += 3 {
		if asciiEqualFold(token[:3], months[i:i+3]) {
			return i/3 + 1
		}
	}
	return 0
}

// parseClock reads hh:mm:ss.
func parseClock(token string) (hms [3]int, ok bool) {
	for i := range hms {
		part, rest, more := strings.Cut(token, ":")
		if more != (i < len(hms)-1) {
			return hms, false
		}
		if hms[i], ok = digits(part); !ok {
			return hms, false
		}
		token = rest
	}
	return hms, true
}

// digits is the number that s is, if it is nothing but digits.
func digits(s string) (n int, ok bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' || n > 1e6 {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, s != ""
}
