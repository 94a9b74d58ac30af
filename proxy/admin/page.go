package admin

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
)

// page is the part of a list that a call asks for by ?q=TEXT&after=CURSOR&limit=N:
// of what holds the text, so many rows from the cursor on. Without a limit it is
// the whole list.
type page struct {
	q     string // lower case
	after string // a row's place; "" the beginning
	limit int    // 0: all
}

// maxLimit bounds a page.
const maxLimit = 1000

// pageOf reads a page. Where it returns false it has answered.
func pageOf(w http.ResponseWriter, r *http.Request) (p page, ok bool) {
	query := r.URL.Query()
	p.q = strings.ToLower(query.Get("q"))
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxLimit {
			problem{http.StatusUnprocessableEntity, "limit", "Ask for 1 to " + strconv.Itoa(maxLimit) + " rows: ?limit=50."}.write(w)
			return p, false
		}
		p.limit = n
	}
	after, err := base64.RawURLEncoding.DecodeString(query.Get("after"))
	if err != nil {
		problem{http.StatusUnprocessableEntity, "after", "A page begins after what the one before it named as next."}.write(w)
		return p, false
	}
	p.after = string(after)
	return p, true
}

// holds says whether one of a row's texts has what is looked for.
func (p page) holds(texts ...string) bool {
	for _, t := range texts {
		if strings.Contains(strings.ToLower(t), p.q) {
			return true
		}
	}
	return false
}

// cut returns the page of rows, which are in order of their places, and the
// cursor of the one that follows, "" where none does.
func cut[T any](rows []T, p page, place func(T) string) (shown []T, next string) {
	shown = rows
	if p.after != "" {
		shown = nil
		for i, row := range rows {
			if place(row) > p.after {
				shown = rows[i:]
				break
			}
		}
	}
	if p.limit == 0 || len(shown) <= p.limit {
		return shown, ""
	}
	shown = shown[:p.limit]
	return shown, base64.RawURLEncoding.EncodeToString([]byte(place(shown[p.limit-1])))
}
