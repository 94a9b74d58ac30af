package proxy

import "testing"

// FuzzParseUser: what is read of a user name is the whole of it, and nothing else.
func FuzzParseUser(f *testing.F) {
	for _, name := range []string{"", "crawler", "crawler-worker-1-session-qa1", "a-session-b-worker-c", "-worker-", "a-worker--session-b", "a-worker-b-worker-c"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		s, ref := parseUser(name)
		if ref != nil {
			return
		}
		for _, order := range []string{s.session + s.worker, ""} {
			written := s.client
			parts := [][2]string{{workerMark, s.worker}, {sessionMark, s.session}}
			if order == "" {
				parts[0], parts[1] = parts[1], parts[0]
			}
			for _, p := range parts {
				if p[1] != "" {
					written += p[0] + p[1]
				}
			}
			if written == name {
				return
			}
		}
		t.Errorf("%q is read as %+v", name, s)
	})
}
