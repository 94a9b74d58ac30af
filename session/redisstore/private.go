package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/redisstore/seal"
)

// A private jar is one hash, whose jar is one field: it holds few cookies, and
// one worker writes it.

// askPrivate asks for a private jar.
func (s *Store) askPrivate(ctx context.Context, e *entry) (*state, error) {
	key := namesOf(e.public).private + e.key.Worker
	sent := time.Now()
	hash, err := s.client.HGetAll(ctx, key).Result()
	s.observe("read", sent)
	if err != nil {
		return nil, callError{err}
	}
	st := &state{token: hash["token"]}
	if st.token == "" {
		return st, nil
	}
	p := newParser([]any{hash["used"], hash["ends"]})
	st.record = &session.Record{Jar: new(session.Jar), Used: p.int(), Ends: p.int()}
	if p.err != nil {
		return nil, fmt.Errorf("%s: %w", key, seal.ErrNotOurs)
	}
	value, err := s.sealer.Open(key, "jar", hash["jar"])
	if err == nil {
		err = st.record.Jar.UnmarshalBinary(value)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return st, nil
}

// writePrivate writes a private jar, unless it, or the floor of its session,
// has become another. Then both have to be asked again.
func (s *Store) writePrivate(ctx context.Context, e *entry, from *state, record, shared *session.Record) (*state, bool, error) {
	n := namesOf(e.public)
	key := n.private + e.key.Worker
	next := &state{record: record, token: newToken()}
	if from.record != nil && from.record.Jar == record.Jar {
		next.token = from.token // only its life is another
	}
	jar, err := record.Jar.MarshalBinary()
	if err != nil {
		return nil, false, err
	}
	floor := ""
	if shared != nil {
		floor = strconv.FormatInt(shared.Jar.Floor(), 10)
	}
	answer, _, err := s.run(ctx, "write", privateScript, []string{key, n.state, n.workers},
		from.token, next.token, floor, record.Used, millis(record.Ends), millis(record.Ends+companionLife),
		e.key.Worker, session.MaxPrivate, n.private,
		"token", next.token, "jar", s.sealer.Seal(key, "jar", jar), "used", record.Used, "ends", record.Ends)
	if err != nil {
		return nil, false, err
	}
	if answer.int() == 1 {
		gone := newParser(answer.next())
		for len(gone.items) > 0 && gone.err == nil {
			s.forget(session.Key{Site: e.key.Site, ID: e.key.ID, Worker: gone.string()})
		}
		return next, true, answer.err
	}
	s.forget(e.key.Shared())
	return nil, false, answer.err
}
