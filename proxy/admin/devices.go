package admin

import (
	"fmt"
	"net/http"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
)

// Devices is the answer to GET /api/v1/devices.
type Devices struct {
	Devices []Device `json:"devices"` // in order of operator and last use; a viewer sees his own
}

// Device is what an operator is logged in with.
type Device struct {
	ID       string    `json:"id"`
	Operator string    `json:"operator"`
	Name     string    `json:"name"`    // what it calls itself
	Browser  bool      `json:"browser"` // by a cookie
	From     string    `json:"from"`    // its address at its last use
	Created  time.Time `json:"created"`
	Used     time.Time `json:"used"`
	Expires  time.Time `json:"expires"` // unless it is used
}

// listDevices is GET /api/v1/devices.
func (s *server) listDevices(w http.ResponseWriter, r *http.Request) {
	all, err := s.access.Devices(r.Context())
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	who := callOf(r.Context()).who
	shown := []Device{}
	for _, d := range all {
		if who.Role == config.RoleOperator || d.Operator == who.Name {
			shown = append(shown, Device(d))
		}
	}
	writeJSON(w, http.StatusOK, "application/json", Devices{shown})
}

// revokeDevice is DELETE /api/v1/devices/{id}.
func (s *server) revokeDevice(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	all, err := s.access.Devices(r.Context())
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	for _, d := range all {
		if d.ID != id {
			continue
		}
		callOf(r.Context()).target = d.Operator + "/" + d.ID
		if err := s.access.RevokeDevice(r.Context(), id); err != nil {
			s.storeFailed(r.Context(), w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	problem{http.StatusNotFound, "unknown_device", "Nobody is logged in with a device of that ID."}.write(w)
}

// DevicesRevoked is the answer to DELETE /api/v1/operators/{name}/devices.
type DevicesRevoked struct {
	Operator string `json:"operator"`
	Devices  int    `json:"devices"` // that were logged out
}

// revokeOperator is DELETE /api/v1/operators/{name}/devices. One who is no
// longer declared may have devices, too.
func (s *server) revokeOperator(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	n, err := s.access.RevokeOperator(r.Context(), name)
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	if n == 0 && !s.access.Known(name) {
		problem{http.StatusNotFound, "unknown_operator", fmt.Sprintf("No operator has the name %q.", name)}.write(w)
		return
	}
	callOf(r.Context()).target = name
	writeJSON(w, http.StatusOK, "application/json", DevicesRevoked{name, n})
}
