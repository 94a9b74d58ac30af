package page

import (
	"regexp"
	"strings"

	"github.com/sessionproxy/sessionproxy/captcha"
)

// call is a call in an inline script that makes or runs a widget.
type call struct {
	key, action, field string
	cloudflare         bool
	execute            bool // of a v3 widget; else a widget is rendered
	invisible          bool
}

// Scripts are not run: the calls are found where they are written with their
// values in place, as the documents of Google and Cloudflare show them.
var (
	calls     = regexp.MustCompile(`\b(grecaptcha|turnstile)(\.enterprise)?\.(render|execute)\s*\(`)
	firstText = regexp.MustCompile(`^\s*["'` + "`" + `]([A-Za-z0-9_.-]{1,100})["'` + "`" + `]\s*,`)
	options   = map[string]*regexp.Regexp{
		"sitekey": option("sitekey"), "action": option("action"), "size": option("size"),
		"field": option("response-field-name"),
	}
)

// option finds a member of an options object, quoted or not.
func option(name string) *regexp.Regexp {
	return regexp.MustCompile(`["']?\b` + name + `["']?\s*:\s*["'` + "`" + `]([^"'` + "`" + `]{1,100})["'` + "`" + `]`)
}

// maxCall is how far a call's arguments are looked at.
const maxCall = 2 << 10

// code finds the calls in a script.
func (s *scanner) code(text []byte) {
	for _, at := range calls.FindAllSubmatchIndex(text, MaxWidgets) {
		args := text[at[1]:min(len(text), at[1]+maxCall)]
		args = args[:argumentsEnd(args)]
		c := call{
			cloudflare: string(text[at[2]:at[3]]) == "turnstile",
			execute:    string(text[at[6]:at[7]]) == "execute",
			key:        optionOf(args, "sitekey"),
			action:     optionOf(args, "action"),
			field:      optionOf(args, "field"),
			invisible:  optionOf(args, "size") == "invisible",
		}
		s.enterprise = s.enterprise || at[4] >= 0
		if c.execute {
			c.key = ""
			if m := firstText.FindSubmatch(args); m != nil {
				c.key = string(m[1])
			}
		}
		if c.key != "" {
			s.calls = append(s.calls, c)
		}
	}
}

func optionOf(args []byte, name string) string {
	if m := options[name].FindSubmatch(args); m != nil {
		return string(m[1])
	}
	return ""
}

// argumentsEnd is where the bracket that opened before args closes: the options
// of the next call are not this one's. Brackets in strings count, too; such a
// call is cut short at worst.
func argumentsEnd(args []byte) int {
	depth := 0
	for i, c := range args {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth < 0 {
				return i
			}
		}
	}
	return len(args)
}

// called is the widget of a call.
func (s *scanner) called(c call) Widget {
	switch {
	case c.cloudflare:
		w := Widget{Type: captcha.Turnstile, SiteKey: c.key, Action: c.action, Field: TurnstileField}
		if c.field != "" {
			w.Field = c.field
		}
		return w
	case c.execute:
		return s.score(c.key, c.action)
	case s.isCloudflare(c.key):
		return Widget{Type: captcha.Turnstile, SiteKey: c.key, Action: c.action, Field: RecaptchaField}
	}
	t := captcha.RecaptchaV2
	if c.invisible {
		t = captcha.RecaptchaV2Invisible
	}
	return Widget{Type: s.edition(t), SiteKey: c.key, Field: RecaptchaField}
}

// isCode says whether a script of that type is run: others hold data.
func isCode(kind string) bool {
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "" || kind == "module" || strings.Contains(kind, "javascript") || strings.Contains(kind, "ecmascript")
}
