// Package cookiefile reads and writes the files in which people and their tools
// keep cookies: cookies.txt, the JSON of browser drivers and extensions, and
// HAR.
//
// It knows forms, and the habits of the programs that read them. Which of a
// file's cookies a session may take, and what it holds, is for others to say.
package cookiefile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sessionproxy/sessionproxy/session"
)

// Format is a form of cookie files.
type Format string

// The formats. HAR can be read only.
const (
	Netscape   Format = "netscape"   // cookies.txt, see netscape.go
	Playwright Format = "playwright" // storageState
	Puppeteer  Format = "puppeteer"  // browserContext.cookies(), page.cookies()
	CDP        Format = "cdp"        // Storage.getCookies of the Chrome DevTools Protocol
	Editor     Format = "editor"     // Cookie-Editor, EditThisCookie: an array of the extension API's cookies.Cookie
	Selenium   Format = "selenium"   // get_cookies: WebDriver section 14.1
	HAR        Format = "har"        // HTTP Archive 1.2
)

// Formats are all formats.
func Formats() []Format {
	return []Format{Netscape, Playwright, Puppeteer, CDP, Editor, Selenium, HAR}
}

// File is what a cookie file holds.
type File struct {
	Format Format

	// Cookies in the order of the file, of a HAR in that of its exchanges.
	// Domains are canonical where they are hosts at all; Created, Used, Version
	// and Writer are the jar's to give. The file may hold what no jar would.
	Cookies []session.Cookie

	// Remarks are sentences on what the file holds and Cookies does not. None
	// has a cookie's value.
	Remarks []string
}

// Error is a fault in a file. It shows none of its text.
type Error struct {
	Line, Column int // from 1; a column is a byte
	Message      string
}

// Error returns LINE:COLUMN: message.
func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Message) }

// maxCookies bounds what is read of one file: far more than a session can hold.
const maxCookies = 100_000

var tooMany = fmt.Sprintf("more than %d cookies: no session holds so many", maxCookies)

// Read reads a file of the format f, or finds the format out where f is "". A
// fault in the file is an *[Error].
func Read(r io.Reader, f Format) (*File, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	start, err := b.Peek(512)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if bytes.HasPrefix(start, []byte("\xff\xfe")) || bytes.HasPrefix(start, []byte("\xfe\xff")) {
		return nil, &Error{1, 1, "this is UTF-16, which PowerShell's > writes; save it as UTF-8"}
	}
	if bom := []byte("\ufeff"); bytes.HasPrefix(start, bom) {
		_, _ = b.Discard(len(bom)) // they were just seen
		start = start[len(bom):]
	}
	start = bytes.TrimLeft(start, " \t\r\n")
	isJSON := len(start) > 0 && (start[0] == '{' || start[0] == '[')
	switch {
	case len(start) == 0:
		return nil, &Error{1, 1, "the file is empty"}
	case f == Netscape && isJSON:
		return nil, &Error{1, 1, "this is JSON, and no cookies.txt"}
	case f != "" && f != Netscape && !isJSON:
		return nil, &Error{1, 1, "this is no JSON, as " + string(f) + " is"}
	case isJSON:
		return readJSON(b, f)
	}
	return readNetscape(b)
}

// Write writes cookies in the format f. What it can't hold, the remarks say. It
// does not write [HAR].
func Write(w io.Writer, f Format, cookies []session.Cookie) (remarks []string, err error) {
	if f == Netscape {
		return writeNetscape(w, plainNetscape, cookies)
	}
	return writeJSON(w, f, cookies)
}

// losses gathers what a format can't hold, by kind, in the order of its first
// case.
type losses struct {
	kinds []string
	names map[string][]string
}

// add notes that the cookie of that name loses something.
func (l *losses) add(kind, name string) {
	if l.names == nil {
		l.names = map[string][]string{}
	}
	if _, known := l.names[kind]; !known {
		l.kinds = append(l.kinds, kind)
	}
	l.names[kind] = append(l.names[kind], name)
}

// remarks makes sentences: "KIND: A, B and 3 more."
func (l *losses) remarks() []string {
	const shown = 5
	var remarks []string
	for _, kind := range l.kinds {
		names := slices.Clone(l.names[kind])
		slices.Sort(names)
		names = slices.Compact(names)
		more := ""
		if n := len(names) - shown; n > 0 {
			names, more = names[:shown], fmt.Sprintf(" and %d more", n)
		}
		for i, name := range names {
			names[i] = shownName(name)
		}
		remarks = append(remarks, kind+": "+strings.Join(names, ", ")+more+".")
	}
	return remarks
}

// shownName is a cookie's name as a terminal may have it.
func shownName(name string) string {
	const longest = 64
	switch {
	case name == "":
		return "(nameless)"
	case len(name) > longest:
		name = name[:longest] + "…"
	}
	if quoted := fmt.Sprintf("%q", name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// isText says whether all of a cookie can stand in a text of UTF-8.
func isText(c *session.Cookie) bool {
	return validText(c.Name) && validText(c.Value) && validText(c.Path)
}
