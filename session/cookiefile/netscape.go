package cookiefile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// A line of cookies.txt: domain, whether subdomains count, path, Secure, end of
// life in Unix seconds, name, value. There is no standard but what its readers
// do: curl (lib/cookie.c), Wget (src/cookies.c), Python (http.cookiejar) and
// yt-dlp.
const (
	fieldDomain = iota
	fieldSubdomains
	fieldPath
	fieldSecure
	fieldExpires
	fieldName
	fieldValue
	fields
)

const (
	netscapeHeader = "# Netscape HTTP Cookie File\n" // Python refuses a file without it
	httpOnlyPrefix = "#HttpOnly_"                    // of curl; a comment to those that don't know it
)

// maxLine bounds a line: name and value are 4096 bytes at most.
const maxLine = 32 << 10

func readNetscape(r *bufio.Reader) (*File, error) {
	file := &File{Format: Netscape}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimSuffix(lines.Text(), "\r")
		line, httpOnly := strings.CutPrefix(line, httpOnlyPrefix)
		if !httpOnly && (strings.TrimSpace(line) == "" || strings.TrimLeft(line, " \t")[0] == '#') {
			continue
		}
		c, column, message := netscapeCookie(line)
		if httpOnly {
			column += len(httpOnlyPrefix)
		}
		if message != "" {
			return nil, &Error{n, column, message}
		}
		if len(file.Cookies) == maxCookies {
			return nil, &Error{n, 1, tooMany}
		}
		c.HTTPOnly = httpOnly
		file.Cookies = append(file.Cookies, c)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, &Error{n + 1, maxLine, fmt.Sprintf("the line is longer than %d bytes, as no cookie's is", maxLine)}
	}
	return file, lines.Err()
}

// netscapeCookie reads a line. Where it can't, message says why and column
// where.
func netscapeCookie(line string) (c session.Cookie, column int, message string) {
	f := strings.Split(line, "\t")
	if len(f) == fields-1 {
		f = append(f, "") // an editor cut the tab before an empty value; curl reads it so
	}
	if len(f) != fields {
		return c, 1, wrongFields(line, len(f))
	}
	fault := func(field int, message string) (session.Cookie, int, string) {
		return c, 1 + len(strings.Join(f[:field], "\t")) + min(field, 1), message
	}
	c.Name, c.Value, c.Path = f[fieldName], f[fieldValue], f[fieldPath]
	subdomains, ok := parseBool(f[fieldSubdomains])
	if !ok {
		return fault(fieldSubdomains, "whether subdomains count is TRUE or FALSE")
	}
	if c.Secure, ok = parseBool(f[fieldSecure]); !ok {
		return fault(fieldSecure, "whether the cookie is Secure is TRUE or FALSE")
	}
	if c.Expires, ok = parseSeconds(f[fieldExpires]); !ok {
		return fault(fieldExpires, "the end of life is a number of seconds since 1970, or 0 for a session cookie")
	}
	if f[fieldDomain] == "" {
		return fault(fieldDomain, "the domain is missing")
	}
	// Most tools write the dot where subdomains count; curl and Wget read the
	// flag, and Python refuses a file in which the two differ.
	setDomain(&c, f[fieldDomain], subdomains)
	return c, 0, ""
}

// cookieHeader is what browsers' tools copy of a request, or the value of it.
var cookieHeader = regexp.MustCompile(`^(?i:cookie:)?\s*[^\s=;]+=[^\s;]*(; [^\s=;]+=[^\s;]*)*;?\s*$`)

// wrongFields says what is the matter with a line of n fields.
func wrongFields(line string, n int) string {
	switch {
	case n == 1 && len(strings.Fields(line)) >= fields-1:
		return "fields are separated by one tab each, and these by spaces, as an editor or a terminal makes of tabs; export the file anew"
	case n == 1 && cookieHeader.MatchString(line):
		return "this is a Cookie header, which says of no cookie whose it is and when it ends: give each one to \"cookies set\""
	case n == 1:
		return "this is no line of cookies.txt, which has 7 fields with a tab between each two, nor is the file JSON"
	}
	return fmt.Sprintf("%d fields, and not 7 with a tab between each two: domain, subdomains, path, Secure, end of life, name, value", n)
}

func parseBool(s string) (value, ok bool) {
	switch {
	case strings.EqualFold(s, "TRUE"):
		return true, true
	case strings.EqualFold(s, "FALSE"):
		return false, true
	}
	return false, false
}

// parseSeconds reads an end of life: seconds since 1970, which some tools write
// with a fraction. 0, what is below it, and nothing stand for a session cookie:
// no tool lists a cookie that ended in 1970.
func parseSeconds(s string) (end time.Time, ok bool) {
	if s == "" {
		return time.Time{}, true
	}
	seconds, err := strconv.ParseFloat(s, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return time.Time{}, false
	}
	return secondsTime(seconds), seconds == seconds // NaN
}

// dialect is how a program reads cookies.txt.
type dialect struct {
	session  string // the end of life of a session cookie, that it keeps and does not take for 1970
	httpOnly bool   // knows the prefix, and does not skip the line as a comment
	nameless bool   // reads an empty name as a cookie without a name
	text     bool   // reads UTF-8 alone
	dotLocal bool   // calls a host of a single label HOST.local
	name     string // in remarks
}

var (
	plainNetscape = dialect{session: "0", httpOnly: true, nameless: true, name: "cookies.txt"}
	forCurl       = dialect{session: "0", httpOnly: true, name: "curl's cookies.txt"}
	forWget       = dialect{session: "0", name: "Wget's cookies.txt"}
	forYtDlp      = dialect{session: "0", httpOnly: true, nameless: true, text: true, dotLocal: true, name: "yt-dlp's cookies.txt"}
	forPython     = dialect{session: "", httpOnly: true, nameless: true, text: true, dotLocal: true, name: "Python's cookies.txt"}
)

func writeNetscape(w io.Writer, d dialect, cookies []session.Cookie) (remarks []string, err error) {
	b := bufio.NewWriter(w)
	_, _ = b.WriteString(netscapeHeader) // b keeps its first error
	var lost losses
	for i := range cookies {
		c := &cookies[i]
		switch {
		case c.Name == "" && !d.nameless:
			lost.add(d.name+" holds no cookie without a name; left out", c.Name)
			continue
		case d.text && !isText(c):
			lost.add(d.name+" holds UTF-8 alone; left out", c.Name)
			continue
		}
		domain := c.Domain
		if d.dotLocal && !strings.ContainsAny(domain, ".:") {
			domain += ".local" // http.cookiejar, eff_request_host
		}
		if !c.HostOnly {
			domain = "." + domain
		}
		if c.HTTPOnly && d.httpOnly {
			domain = httpOnlyPrefix + domain
		}
		end := d.session
		if !c.Expires.IsZero() {
			end = strconv.FormatInt(c.Expires.Unix(), 10)
		}
		_, _ = b.WriteString(strings.Join([]string{domain, netscapeBool(!c.HostOnly), c.Path, netscapeBool(c.Secure), end, c.Name, c.Value}, "\t"))
		_ = b.WriteByte('\n')

		if c.HTTPOnly && !d.httpOnly {
			lost.add(d.name+" holds no HttpOnly", c.Name)
		}
		if c.SameSite != session.SameSiteDefault {
			lost.add(d.name+" holds no SameSite", c.Name)
		}
		if c.Partitioned {
			lost.add(d.name+" holds no Partitioned", c.Name)
		}
		if priorityOf(c.Priority) != "" {
			lost.add(d.name+" holds no Priority", c.Name)
		}
	}
	return lost.remarks(), b.Flush()
}

func netscapeBool(b bool) string {
	if b {
		return "TRUE"
	}
	return "FALSE"
}
