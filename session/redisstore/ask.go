package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// ask returns what Redis holds under e.
func (s *Store) ask(ctx context.Context, e *entry) (*state, error) {
	if e.key.Worker != "" {
		return s.askPrivate(ctx, e)
	}
	return s.askShared(ctx, e)
}

// askShared asks for a session. What memory knows of it already is not sent
// again.
func (s *Store) askShared(ctx context.Context, e *entry) (*state, error) {
	e.mu.Lock()
	last := e.last
	e.mu.Unlock()
	n := namesOf(e.public)
	token, digest := "?", "?"
	if last != nil {
		token, digest = last.token, last.digest
	}
	p, now, err := s.run(ctx, "read", readScript, []string{n.mirror, n.jar, n.state}, token, digest)
	if err != nil {
		return nil, err
	}
	if same := p.int(); same == 0 {
		return s.decodeWhole(n, now, p)
	}
	ttl, used, ends := p.int(), p.int(), p.int()
	if p.err != nil || last == nil {
		return nil, errReply
	}
	st := *last.state
	st.mirrorEnds = endAfter(now, ttl)
	if st.record != nil && (st.record.Used != used || st.record.Ends != ends) {
		st.record = st.record.Renewed(used, ends)
	}
	return &st, nil
}

// run runs a script, and reads the time that each answer begins with.
func (s *Store) run(ctx context.Context, op string, script *redis.Script, keys []string, args ...any) (*parser, int64, error) {
	sent := time.Now()
	reply, err := script.Run(ctx, s.client, keys, args...).Result()
	s.observe(op, sent)
	if err != nil {
		return nil, 0, callError{err}
	}
	p := newParser(reply)
	now := p.time()
	if p.err != nil {
		return nil, 0, p.err
	}
	s.clock.learn(now, sent)
	return p, now, nil
}

// write makes a plan come true. Where another state is there by now it returns
// that, and not done.
func (s *Store) write(ctx context.Context, e *entry, p *plan) (st *state, done bool, err error) {
	n := namesOf(e.public)
	answer, now, err := s.run(ctx, "write", writeScript, []string{n.mirror, n.jar, n.state, n.workers}, p.args(n)...)
	if err != nil {
		return nil, false, err
	}
	if answer.int() == 1 {
		p.next.digest = answer.string()
		return p.next, answer.err == nil, answer.err
	}
	st, err = s.decodeWhole(n, now, answer)
	if err != nil {
		return nil, false, err
	}
	// It was written, and the answer got lost: the client sent it again.
	return st, st.token == p.next.token && st.token != p.from.token, nil
}
