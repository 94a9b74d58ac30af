package admin

import (
	"net/http"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
)

// ClientInfo is a declared client, without its password.
type ClientInfo struct {
	Name     string        `json:"name"`
	Sites    []string      `json:"sites"`    // that it may use; []: all
	Sessions []string      `json:"sessions"` // globs; the same
	Access   config.Access `json:"access"`
	Deliver  bool          `json:"deliver"`
}

// Clients is the answer to GET /api/v1/clients.
type Clients struct {
	Clients []ClientInfo `json:"clients"` // in the order of the configuration
}

// listClients is GET /api/v1/clients.
func (s *server) listClients(w http.ResponseWriter, _ *http.Request) {
	shown := []ClientInfo{}
	for _, c := range s.clients() {
		shown = append(shown, ClientInfo{c.Name, append([]string{}, c.Sites...), append([]string{}, c.Sessions...), c.Access, c.Deliver})
	}
	writeJSON(w, http.StatusOK, "application/json", Clients{shown})
}

// Worker is one running instance of a client, as this proxy has seen it.
type Worker struct {
	Client   string    `json:"client"`  // "" unnamed
	Worker   string    `json:"worker"`  // its address unless it names itself
	From     string    `json:"from"`    // its address at the last request
	Site     string    `json:"site"`    // of the last request; "" a host that no site declares
	Session  string    `json:"session"` // the same
	Requests int64     `json:"requests"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
}

// Workers is the answer to GET /api/v1/workers.
type Workers struct {
	Workers []Worker `json:"workers"` // the last that was seen first
}

// listWorkers is GET /api/v1/workers.
func (s *server) listWorkers(w http.ResponseWriter, _ *http.Request) {
	shown := []Worker{}
	for _, one := range s.workers() {
		one.First, one.Last = one.First.UTC(), one.Last.UTC()
		shown = append(shown, one)
	}
	writeJSON(w, http.StatusOK, "application/json", Workers{shown})
}

// Config is the answer to GET /api/v1/config.
type Config struct {
	Loaded time.Time `json:"loaded"` // when the one in force was read
	Faults []Fault   `json:"faults"` // of a later one, which is not in force
}

// Fault is what is wrong with a configuration. It shows no secret.
type Fault struct {
	Where   string `json:"where"` // FILE:LINE:COLUMN, or a flag or variable
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
}

// showConfig is GET /api/v1/config.
func (s *server) showConfig(w http.ResponseWriter, _ *http.Request) {
	writeConfig(w, s.config())
}

// reloadConfig is POST /api/v1/config/reload: it reads the configuration anew,
// as SIGHUP does. One with faults is not put in force, and the answer has them.
func (s *server) reloadConfig(w http.ResponseWriter, r *http.Request) {
	s.reload(r.Context())
	shown := s.config()
	s.log.InfoContext(r.Context(), "reload asked for", "by", name(r.Context()), "faults", len(shown.Faults))
	writeConfig(w, shown)
}

func writeConfig(w http.ResponseWriter, shown Config) {
	shown.Loaded, shown.Faults = shown.Loaded.UTC(), append([]Fault{}, shown.Faults...)
	writeJSON(w, http.StatusOK, "application/json", shown)
}
