package proxy

import (
	"strings"

	"github.com/sessionproxy/sessionproxy/session"
)

// privateKey names the jar in which the proxy keeps a worker's private cookies:
// CSRF tokens, mostly, which are good for one client only. Browsers keep their
// own, and so does a worker that has ever sent such a cookie.
func (x *exchange) privateKey() session.Key {
	worker := x.id.worker
	if x.id.name != "" {
		worker = x.id.name + workerMark + worker // two clients may call theirs the same
	}
	return session.Key{Site: x.key.Site, ID: x.key.ID, Worker: worker}
}

// keepsItself says whether the client, and not the proxy, keeps private cookies
// of that name.
func (x *exchange) keepsItself(name string) bool {
	return x.browser || x.p.keepers.has(x.key.Site, x.key.ID, x.id.name, x.id.worker, name)
}

// notePrivate remembers the private names that the client sends.
func (x *exchange) notePrivate() {
	if x.browser {
		return
	}
	for _, line := range x.cookie {
		for pair := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if name = strings.TrimSpace(name); x.site.policy.Private(name) {
				x.p.keepers.add(x.key.Site, x.key.ID, x.id.name, x.id.worker, name)
			}
		}
	}
}
