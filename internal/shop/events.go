package shop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const eventEvery = time.Second

// parcel is the way that every order goes, again and again.
var parcel = []string{"packed", "left the warehouse", "in the van", "at your door"}

// events streams where the customer's parcel is: at once, then every second
// until the client leaves or is signed out (the server-sent events of the HTML
// standard).
func (s *Shop) events(w http.ResponseWriter, r *http.Request) {
	user := s.signedIn(r)
	if user == "" {
		s.unauthorized(w)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return // its answer would never end, and hold the connection
	}
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	out := http.NewResponseController(w)
	for n := 0; user != ""; n++ {
		data, err := json.Marshal(map[string]string{"user": user, "parcel": parcel[n%len(parcel)]})
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
		user = s.signedIn(r)
	}
}
