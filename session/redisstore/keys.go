package redisstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sessionproxy/sessionproxy/session"
)

// maxKey bounds the three parts of a key together.
const maxKey = 8 << 10

var (
	errKeyTooLong = errors.New("key is too long")
	errKeyMarks   = errors.New("a site's key holds no {, } or ~, and a session's ID no { or }")
)

// names are the Redis keys of one session. All are in one slot of a Cluster:
// the public key has no hash tag, and is that of the others.
type names struct {
	mirror  string // the hash that workers read and write
	jar     string // a field each cookie, mark and name
	state   string // versions and life
	workers string // those with a private jar, by last use
	private string // what a private jar's key begins with; the worker's name follows
}

// publicKey is the key of a session that workers know.
func (s *Store) publicKey(key session.Key) string {
	if key.ID == session.DefaultID {
		return s.prefix + "cookies:" + key.Site
	}
	return s.prefix + "cookies:" + key.Site + "~" + key.ID
}

func namesOf(public string) names {
	tag := "{" + public + "}:"
	return names{mirror: public, jar: tag + "jar", state: tag + "state", workers: tag + "workers", private: tag + "private:"}
}

// checkKey says why a key can't be kept here.
func checkKey(key session.Key) error {
	switch {
	case len(key.Site)+len(key.ID)+len(key.Worker) > maxKey:
		return errKeyTooLong
	case strings.ContainsAny(key.Site, "{}~"), strings.ContainsAny(key.ID, "{}"):
		return errKeyMarks
	}
	return nil
}

// keyOf reads the name of a Redis key: which session it is of, and of which
// worker where it is a private jar.
func (s *Store) keyOf(name string) (key session.Key, ok bool) {
	public, rest, tagged := strings.Cut(strings.TrimPrefix(name, "{"), "}:")
	site, ok := strings.CutPrefix(public, s.prefix+"cookies:")
	if !ok || tagged != strings.HasPrefix(name, "{") {
		return session.Key{}, false
	}
	key.Site, key.ID, ok = strings.Cut(site, "~")
	if !ok {
		key.ID = session.DefaultID
	}
	if worker, private := strings.CutPrefix(rest, "private:"); private {
		key.Worker = worker
	}
	return key, checkKey(key) == nil && s.publicKey(key) == public
}

func fail(op string, key session.Key, err error) error {
	return fmt.Errorf("%s session %q of %q: %w", op, key.ID, key.Site, err)
}
