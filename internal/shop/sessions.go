package shop

import (
	"crypto/rand"
	"maps"
	"sync"
	"time"
)

// sessionLife is how long a login lasts, on the server and in the cookie.
const sessionLife = 12 * time.Hour

type session struct {
	user string
	ends time.Time
}

// sessions holds who is signed in.
type sessions struct {
	mu   sync.Mutex // guards live
	live map[string]session
}

// start signs user in and returns the session's id.
func (s *sessions) start(user string) string {
	id, now := rand.Text(), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	// Nobody else removes them: an expired session's cookie does not come back.
	maps.DeleteFunc(s.live, func(_ string, old session) bool { return !now.Before(old.ends) })
	s.live[id] = session{user: user, ends: now.Add(sessionLife)}
	return id
}

// user returns whose session id is, or "" where it is unknown or over.
func (s *sessions) user(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.live[id]; time.Now().Before(found.ends) {
		return found.user
	}
	return ""
}

// end signs out. An unknown session is not an error.
func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, id)
}
