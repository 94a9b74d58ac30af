package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sessionproxy/sessionproxy/proxy/trace"
)

// exchangeLines prints a line for each exchange, in columns that grow as they
// have to, and below it what needs a word.
type exchangeLines struct {
	w       io.Writer
	color   bool
	columns []column // nil before the first line
}

type column struct {
	head  string
	width int // at least
}

func exchangeColumns() []column {
	return []column{
		{"TIME", 12}, {"OUTCOME", 0}, {"STATUS", 0}, {"METHOD", 7}, {"URL", 40}, {"CLIENT", 14}, {"SESSION", 14},
		{"SENT", 0}, {"WITHHELD", 0}, {"CAPTURED", 0}, {"TOOK", 6}, {"ADDED", 6}, {"EXCHANGE", 0},
	}
}

// The columns that have a colour.
const (
	outcomeColumn = 1
	idColumn      = 12
)

// maxColumn is how wide a column grows: what is longer pushes the rest aside.
const maxColumn = 60

func (l *exchangeLines) print(e *trace.Exchange) error {
	var b strings.Builder
	if l.columns == nil {
		l.columns = exchangeColumns()
		heads := make([]string, len(l.columns))
		for i, c := range l.columns {
			heads[i] = c.head
		}
		l.row(&b, heads, func(_ int, head string) string { return head })
	}
	sent, withheld, captured := cookiesOf(e)
	took, added := "-", "-"
	if e.Outcome != trace.Open {
		took, added = milliseconds(e.Times.Total), milliseconds(e.Times.Added)
	}
	l.row(&b, []string{
		e.Time.Local().Format("15:04:05.000"), string(e.Outcome), statusOf(e), printable(e.Method), urlOf(e), userOf(e), sessionOf(e),
		number(sent), number(withheld), number(captured), took, added, e.ID,
	}, func(i int, cell string) string { return l.paint(i, e, cell) })
	for _, line := range details(e) {
		fmt.Fprintf(&b, "%s  %s%s\n", l.code(faint), line, l.code(plain))
	}
	_, err := io.WriteString(l.w, b.String())
	return err
}

func (l *exchangeLines) row(b *strings.Builder, cells []string, paint func(i int, cell string) string) {
	for i, cell := range cells {
		c := &l.columns[i]
		n := utf8.RuneCountInString(cell)
		c.width = max(c.width, min(n, maxColumn))
		b.WriteString(paint(i, cell))
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", max(0, c.width-n)+2))
		}
	}
	b.WriteByte('\n')
}

// number is one that is worth a look, or none.
func number(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// The colours of a terminal (ECMA-48 section 8.3.117).
const (
	plain  = "0"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (l *exchangeLines) code(c string) string {
	if !l.color {
		return ""
	}
	return "\x1b[" + c + "m"
}

// paint colours the outcome, and dims the ID.
func (l *exchangeLines) paint(column int, e *trace.Exchange, cell string) string {
	color := ""
	switch {
	case column == idColumn:
		color = faint
	case column != outcomeColumn:
		return cell
	case e.Outcome == trace.OK || e.Outcome == trace.Open:
		color = green
	case e.Outcome == trace.Failed || e.Outcome == trace.Broken:
		color = red
	default:
		color = yellow
	}
	return l.code(color) + cell + l.code(plain)
}

func statusOf(e *trace.Exchange) string {
	if e.Status == 0 {
		return "-"
	}
	return fmt.Sprint(e.Status)
}

// urlOf is the URL without its query; of a tunnel host and port.
func urlOf(e *trace.Exchange) string {
	if e.Host == "" {
		return "-" // refused before a host was read
	}
	scheme, port := "https", "443"
	host := e.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	switch e.Mode {
	case trace.Tunnel:
		return printable(host + ":" + e.Port)
	case "plain":
		scheme, port = "http", "80"
	}
	if e.Port != "" && e.Port != port {
		host += ":" + e.Port
	}
	return printable(scheme + "://" + host + e.Path)
}

func userOf(e *trace.Exchange) string {
	if e.Client == "" {
		return printable(e.Worker)
	}
	return printable(e.Client + "/" + e.Worker)
}

func sessionOf(e *trace.Exchange) string {
	switch {
	case e.Site == "":
		return "-"
	case e.Session == "":
		return printable(e.Site)
	}
	return printable(e.Site + "/" + e.Session)
}

// cookiesOf counts the cookies of the session that went, those that did not, and
// those that were captured.
func cookiesOf(e *trace.Exchange) (sent, withheld, captured int) {
	for _, c := range e.Cookies {
		switch {
		case c.From == "client":
		case c.Sent:
			sent++
		default:
			withheld++
		}
	}
	for _, c := range e.SetCookies {
		if c.Captured {
			captured++
		}
	}
	return sent, withheld, captured
}

func milliseconds(ms float64) string {
	switch d := time.Duration(ms * float64(time.Millisecond)); {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case ms >= 10:
		return fmt.Sprintf("%.0fms", ms)
	case ms < 0.1:
		return fmt.Sprintf("%dµs", d.Microseconds())
	}
	return fmt.Sprintf("%.1fms", ms)
}

// details are what needs a word: the cookies that did not go or were not
// captured, by reason, and what else is not as a reader may expect.
func details(e *trace.Exchange) []string {
	var all []string
	if e.Refused != nil {
		all = append(all, fmt.Sprintf("%s: %s", e.Refused.Code, printable(e.Refused.Sentence)))
	}
	for _, why := range e.Why {
		all = append(all, printable(why))
	}
	var withheld, notCaptured reasons
	for _, c := range e.Cookies {
		if !c.Sent {
			withheld.add(c.Why, c.Name)
		}
	}
	for _, c := range e.SetCookies {
		if !c.Captured {
			notCaptured.add(c.Why, c.Name)
		}
	}
	all = append(append(all, withheld.lines("not sent")...), notCaptured.lines("not captured")...)
	for _, f := range e.Captcha {
		if f.Outcome != "filled" {
			all = append(all, fmt.Sprintf("no token for %s: %s", f.Type, f.Outcome))
		}
	}
	if e.Error != "" {
		all = append(all, "cause: "+printable(e.Error))
	}
	return all
}

// reasons gathers names by the reason that they share.
type reasons struct {
	order []string
	names map[string][]string
}

func (r *reasons) add(why, name string) {
	if r.names == nil {
		r.names = map[string][]string{}
	}
	if r.names[why] == nil {
		r.order = append(r.order, why)
	}
	r.names[why] = append(r.names[why], cookieName(name))
}

// maxNames is how many names a line has.
const maxNames = 8

func (r *reasons) lines(what string) (all []string) {
	for _, why := range r.order {
		names := r.names[why]
		more := ""
		if len(names) > maxNames {
			more = fmt.Sprintf(" and %d more", len(names)-maxNames)
			names = names[:maxNames]
		}
		all = append(all, fmt.Sprintf("%s: %s%s: %s", what, strings.Join(names, ", "), more, printable(why)))
	}
	return all
}
