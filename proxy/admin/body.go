package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"unicode/utf8"
)

// maxBody bounds what a client sends.
const maxBody = 64 << 10

// readJSON reads a request's body, which is like example, into v. What it can
// not take whole it does not take: a field that nobody knows is a field that
// somebody meant. What the body holds appears in no problem.
func readJSON(w http.ResponseWriter, r *http.Request, v any, example string) *problem {
	return readLongJSON(w, r, v, example, maxBody)
}

// readLongJSON is readJSON with a limit in bytes.
func readLongJSON(w http.ResponseWriter, r *http.Request, v any, example string, limit int64) *problem {
	// A form or a text can be sent by any page without being asked for first.
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return &problem{http.StatusUnsupportedMediaType, "content_type", "Send JSON, and say so: Content-Type: application/json."}
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return &problem{http.StatusRequestEntityTooLarge, "body_size", fmt.Sprintf("The body is longer than %d KiB.", limit>>10)}
	}
	if err != nil {
		return &problem{http.StatusBadRequest, "body", "The body ended early."}
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	// encoding/json would put U+FFFD in the place of what is no UTF-8.
	if !utf8.Valid(b) || d.Decode(v) != nil || len(bytes.TrimSpace(b[d.InputOffset():])) > 0 {
		return &problem{http.StatusBadRequest, "body", "The body is to be like " + example + ", with no other field."}
	}
	return nil
}
