package captchaai

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// reply is what in.php or res.php wrote, in either of its two forms.
type reply struct {
	code      string          // of an error; else "" and
	value     json.RawMessage // JSON: what "request" holds
	text      string          // the same as text: of a JSON string or number, or of plain text after "OK|"
	bare      bool            // plain text that begins with neither OK| nor a code
	userAgent string          // that a token belongs to, where the service says
	all       map[string]json.RawMessage
}

var errNoAnswer = errors.New("the reply is no answer")

// parseReply reads a body. The error says that it is none of the service's
// forms: a page of HTML, nothing, or half of it.
func parseReply(body []byte) (reply, error) {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
	if len(body) == 0 {
		return reply{}, errNoAnswer
	}
	if body[0] == '{' {
		return parseJSON(body)
	}
	text := string(body)
	if answer, ok := strings.CutPrefix(text, "OK|"); ok { // the first | only: an answer may hold more
		if answer == "" {
			return reply{}, errNoAnswer
		}
		return reply{text: answer}, nil
	}
	if isCode.MatchString(text) {
		return reply{code: text}, nil
	}
	if body[0] == '<' {
		return reply{}, errNoAnswer
	}
	return reply{text: text, bare: true}, nil
}

func parseJSON(body []byte) (reply, error) {
	var all map[string]json.RawMessage
	if json.Unmarshal(body, &all) != nil {
		return reply{}, errNoAnswer
	}
	r := reply{value: all["request"], all: all}
	r.text = scalar(r.value)
	for _, name := range []string{"user_agent", "useragent", "userAgent"} {
		if ua := scalar(all[name]); ua != "" && r.userAgent == "" {
			r.userAgent = ua
		}
	}
	status := scalar(all["status"])
	switch {
	case isCode.MatchString(r.text):
		r.code = r.text
	case status == "1" || status == "true":
		if len(r.value) == 0 && len(all) == 1 {
			return reply{}, errNoAnswer
		}
		// An answer in the plain form, inside the other.
		if answer, ok := strings.CutPrefix(r.text, "OK|"); ok {
			r.text = answer
		}
	case status == "0" || status == "false":
		r.code = "an error without a code"
	case status == "" && len(all) > 0:
		r.bare = true // threadsinfo writes fields alone
	default:
		return reply{}, errNoAnswer
	}
	return r, nil
}

// scalar is the text of a JSON string or number, and "" of anything else. IDs
// are numbers from one method and strings from another.
func scalar(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var s string
	if raw[0] == '"' {
		if json.Unmarshal(raw, &s) != nil {
			return ""
		}
		return s
	}
	if c := raw[0]; c == '-' || '0' <= c && c <= '9' || c == 't' || c == 'f' {
		return string(raw)
	}
	return ""
}
