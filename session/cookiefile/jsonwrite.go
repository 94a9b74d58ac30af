package cookiefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/sessionproxy/sessionproxy/session"
)

// member is a name and its value, in the order in which they are written.
type member struct {
	name  string
	value any
}

// jsonForm is how a format writes a cookie.
type jsonForm struct {
	sameSite  map[session.SameSite]string // what is not there is left out
	hostOnly  bool                        // has hostOnly and session, for what others say by a dot and by -1
	end       string                      // the name of the end of life
	always    bool                        // a session cookie has it, too: -1
	whole     bool                        // it is in whole seconds
	priority  bool
	partition func(site string) []member // nil: the format has none
}

var (
	protocolSameSite  = map[session.SameSite]string{session.SameSiteNone: "None", session.SameSiteLax: "Lax", session.SameSiteStrict: "Strict"}
	extensionSameSite = map[session.SameSite]string{session.SameSiteDefault: "unspecified", session.SameSiteNone: "no_restriction", session.SameSiteLax: "lax", session.SameSiteStrict: "strict"}

	jsonForms = map[Format]jsonForm{
		// Playwright takes a partition without the second member for one that
		// has a foreign page above.
		Playwright: {sameSite: protocolSameSite, end: "expires", always: true, partition: func(site string) []member {
			return []member{{"partitionKey", site}, {"_crHasCrossSiteAncestor", false}}
		}},
		Puppeteer: {sameSite: protocolSameSite, end: "expires", always: true, priority: true, partition: partitionObject("sourceOrigin")},
		CDP:       {sameSite: protocolSameSite, end: "expires", priority: true, partition: partitionObject("topLevelSite")},
		// Neither extension wants a storeId: each takes its own then.
		Editor:   {sameSite: extensionSameSite, hostOnly: true, end: "expirationDate", partition: partitionObject("topLevelSite")},
		Selenium: {sameSite: protocolSameSite, end: "expiry", whole: true},
	}
)

func partitionObject(name string) func(site string) []member {
	return func(site string) []member {
		return []member{{"partitionKey", object{{name, site}, {"hasCrossSiteAncestor", false}}}}
	}
}

// cookie returns the members of c.
func (f *jsonForm) cookie(c *session.Cookie) object {
	domain := c.Domain
	if !c.HostOnly {
		domain = "." + domain
	}
	o := object{{"name", c.Name}, {"value", c.Value}, {"domain", domain}, {"path", c.Path}}
	if f.hostOnly {
		o = append(o, member{"hostOnly", c.HostOnly}, member{"session", c.Expires.IsZero()})
	}
	switch {
	case c.Expires.IsZero() && f.always:
		o = append(o, member{f.end, -1})
	case c.Expires.IsZero():
	case f.whole || c.Expires.Nanosecond() == 0:
		o = append(o, member{f.end, c.Expires.Unix()})
	default:
		o = append(o, member{f.end, json.Number(fmt.Sprintf("%d.%06d", c.Expires.Unix(), c.Expires.Nanosecond()/1000))})
	}
	o = append(o, member{"httpOnly", c.HTTPOnly}, member{"secure", c.Secure})
	if s, ok := f.sameSite[c.SameSite]; ok {
		o = append(o, member{"sameSite", s})
	}
	if p := priorityOf(c.Priority); p != "" && f.priority {
		o = append(o, member{"priority", p})
	}
	if c.Partitioned && f.partition != nil {
		o = append(o, f.partition(siteOf(c.Domain))...)
	}
	return o
}

// writeJSON writes an array, or Playwright's object, with a cookie a line.
func writeJSON(w io.Writer, format Format, cookies []session.Cookie) ([]string, error) {
	f, ok := jsonForms[format]
	if !ok {
		return nil, fmt.Errorf("%s can be read, but not written", format)
	}
	var lost losses
	var b bytes.Buffer
	for i := range cookies {
		c := &cookies[i]
		if !isText(c) {
			lost.add("JSON holds UTF-8 alone; left out", c.Name)
			continue
		}
		if c.Partitioned && f.partition == nil {
			lost.add(string(format)+" holds no Partitioned", c.Name)
		}
		if priorityOf(c.Priority) != "" && !f.priority {
			lost.add(string(format)+" holds no Priority", c.Name)
		}
		if b.Len() > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n  ")
		if err := f.cookie(c).write(&b); err != nil {
			return nil, err
		}
	}
	list := "[" + b.String() + "\n]"
	if b.Len() == 0 {
		list = "[]"
	}
	if format == Playwright {
		list = `{"cookies": ` + list + `, "origins": []}`
	}
	_, err := io.WriteString(w, list+"\n")
	return lost.remarks(), err
}

// object is a JSON object whose members keep their order.
type object []member

// write writes it on one line. Values are not escaped for HTML: they are to be
// found as they are.
func (o object) write(b *bytes.Buffer) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	for i, m := range o {
		if i == 0 {
			b.WriteByte('{')
		} else {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "%q: ", m.name)
		if inner, ok := m.value.(object); ok {
			if err := inner.write(b); err != nil {
				return err
			}
			continue
		}
		if err := e.Encode(m.value); err != nil {
			return err
		}
		b.Truncate(b.Len() - 1) // Encode ends a line
	}
	b.WriteByte('}')
	return nil
}
