package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/trace"
)

// showExchange prints all there is to say of one exchange.
func showExchange(w io.Writer, e trace.Exchange) error {
	rows := [][]string{
		{"exchange", e.ID + " of " + e.Time.Format(time.RFC3339Nano)},
		{"request", fmt.Sprintf("%s %s (%s)", printable(e.Method), urlOf(&e), e.Mode)},
		{"client", clientOf(&e)},
		{"session", selectedSession(&e)},
		{"answer", answerOf(&e)},
	}
	if e.Lease != nil {
		exit := fmt.Sprintf("%s of the pool %s", e.Lease.Upstream, e.Lease.Pool)
		if e.Lease.Moves > 0 {
			exit += ", the one before having failed"
		}
		rows = append(rows, []string{"exit", exit})
	}
	for _, f := range e.Captcha {
		rows = append(rows, []string{"captcha", fmt.Sprintf("%s: %s, from %s, in %s", f.Type, f.Outcome, orNone(f.Source), milliseconds(f.Milliseconds))})
	}
	rows = append(rows, []string{"time", timeOf(&e)})
	if e.Refused != nil {
		rows = append(rows, []string{"refused", fmt.Sprintf("%s: %s", e.Refused.Code, printable(e.Refused.Sentence))})
	}
	if e.Error != "" {
		rows = append(rows, []string{"cause", printable(e.Error)})
	}
	for i, why := range e.Why {
		rows = append(rows, []string{[2]string{"why", ""}[min(i, 1)], printable(why)})
	}
	if err := table(w, rows); err != nil {
		return err
	}
	if len(e.Cookies) > 0 {
		fmt.Fprintln(w)
		if err := table(w, cookieRows(e.Cookies)); err != nil {
			return err
		}
	}
	if len(e.SetCookies) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	set := [][]string{{"SET-COOKIE", "CAPTURED", "WHY"}}
	for _, c := range e.SetCookies {
		set = append(set, []string{cookieName(c.Name), yesNo(c.Captured), printable(c.Why)})
	}
	return table(w, set)
}

func clientOf(e *trace.Exchange) string {
	name := e.Client
	if name == "" {
		name = "(unnamed)"
	}
	return fmt.Sprintf("%s, worker %s", printable(name), printable(e.Worker))
}

// selectedSession is the session, what selected it, and its version, which is a
// time.
func selectedSession(e *trace.Exchange) string {
	switch {
	case e.Site == "":
		return "none: no site declares the host"
	case e.Session == "":
		return "none of " + printable(e.Site)
	}
	by := map[string]string{
		string(trace.ByPort): "pinned to the port", string(trace.ByCredentials): "selected by the proxy user name",
		string(trace.ByHeader): "selected by X-Proxy-Session", string(trace.ByDefault): "the default, since nothing selected another",
	}[e.Selected]
	text := fmt.Sprintf("%s of %s, %s", printable(e.Session), printable(e.Site), by)
	if e.Version > 0 {
		text += fmt.Sprintf("; as of %s", time.UnixMicro(e.Version).UTC().Format(time.RFC3339Nano))
	}
	return text
}

func answerOf(e *trace.Exchange) string {
	text := fmt.Sprintf("%s, %s, %d B", statusOf(e), e.Outcome, e.Bytes)
	if e.Mode == trace.Tunnel {
		text = fmt.Sprintf("%s, %d B to the client, %d B from it", e.Outcome, e.Bytes, e.SentBytes)
	}
	if e.Verdict != "" {
		text += fmt.Sprintf("; verdict %s (%s)", e.Verdict, e.Rule)
	}
	return text
}

func timeOf(e *trace.Exchange) string {
	t := e.Times
	var parts []string
	for _, p := range []struct {
		name string
		ms   float64
	}{{"login", t.Login}, {"captcha", t.Captcha}, {"upstream lease", t.Lease}, {"store", t.Store}} {
		if p.ms >= 0.1 {
			parts = append(parts, fmt.Sprintf("%s %s", p.name, milliseconds(p.ms)))
		}
	}
	of := ""
	if len(parts) > 0 {
		of = " (of it: " + strings.Join(parts, ", ") + ")"
	}
	return fmt.Sprintf("%s: %s until the site's answer began, %s for its body, %s added%s",
		milliseconds(t.Total), milliseconds(t.Upstream), milliseconds(t.Body), milliseconds(t.Added), of)
}

func cookieRows(cookies []trace.RequestCookie) [][]string {
	rows := [][]string{{"COOKIE", "FROM", "SENT", "WHY", "SET BY", "AT", "REPLACED"}}
	for _, c := range cookies {
		rows = append(rows, []string{cookieName(c.Name), c.From, yesNo(c.Sent), printable(c.Why), orNone(c.Writer), instant(c.Set), instant(c.Replaced)})
	}
	return rows
}

func instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
