package admin

import (
	"net/http"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/group"
)

// Overview is the answer to GET /api/v1/overview.
type Overview struct {
	Proxies []Member      `json:"proxies"` // that share the store and are there, in order of host
	Points  []group.Point `json:"points"`  // of all of them, each 5 seconds, of the last ten minutes
	Partial bool          `json:"partial"` // the store does not answer: it is of this proxy alone
}

// Member is one proxy of those that share a store.
type Member struct {
	ID        string    `json:"id"`
	Here      bool      `json:"here"` // it is the one that answers
	Host      string    `json:"host"`
	Admin     string    `json:"admin"` // host:port of its admin API
	Version   string    `json:"version"`
	Started   time.Time `json:"started"`
	Seen      time.Time `json:"seen"`
	Exchanges uint64    `json:"exchanges"` // of the last minute
	Failed    uint64    `json:"failed"`    // of them
	Workers   int       `json:"workers"`   // seen within five minutes
}

// showOverview is GET /api/v1/overview.
func (s *server) showOverview(w http.ResponseWriter, r *http.Request) {
	members, err := s.group.Members(r.Context())
	if err != nil {
		s.log.WarnContext(r.Context(), "overview", "err", err)
	}
	now := time.Now()
	shown := Overview{Proxies: []Member{}, Points: s.group.Points(members, now), Partial: err != nil}
	for _, m := range members {
		one := Member{
			ID: m.ID, Here: m.ID == s.group.Self(), Host: m.Host, Admin: m.Admin, Version: m.Version,
			Started: m.Started, Seen: m.Seen,
		}
		for _, sample := range m.Samples {
			if sample.End > now.Add(-time.Minute).Unix() {
				one.Exchanges += sample.Exchanges
				one.Failed += sample.Failed
				one.Workers = sample.Workers
			}
		}
		shown.Proxies = append(shown.Proxies, one)
	}
	writeJSON(w, http.StatusOK, "application/json", shown)
}
