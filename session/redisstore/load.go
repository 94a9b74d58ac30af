package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/session"
)

// Load returns the jar under key, or session.ErrNotFound. Where memory knows it,
// no server is asked.
func (s *Store) Load(ctx context.Context, key session.Key) (*session.Jar, error) {
	steady, now := s.clock.read()
	own, shared, ok := s.known(key, steady)
	if !ok {
		var err error
		if own, shared, err = s.find(ctx, key); err != nil {
			return nil, fail("load", key, err)
		}
	}
	if jar := session.JarAt(key, own, shared, now); jar != nil {
		return jar, nil
	}
	return nil, session.ErrNotFound
}

// known returns the records under key as memory shows them, where it may.
func (s *Store) known(key session.Key, steady int64) (own, shared *session.Record, ok bool) {
	e := s.cache.get(key)
	if e == nil {
		return nil, nil, false
	}
	v := s.valid(e, steady)
	if v == nil {
		return nil, nil, false
	}
	if key.Worker == "" {
		return v.record, nil, true
	}
	w := s.valid(v.shared, steady)
	if w == nil || !v.holds() {
		return nil, nil, false
	}
	return v.record, w.record, true
}

// valid is the snapshot that may be shown: the tracker would know if it were
// old. It is nil once the store is closed.
func (s *Store) valid(e *entry, steady int64) *snapshot {
	v := e.valid.Load()
	if v == nil || v.epoch != s.epoch.Load() || steady-v.read > maxAge || !s.tracker.Coherent(e.public) {
		return nil
	}
	if !e.recent.Load() {
		e.recent.Store(true)
	}
	return v
}

// holds says whether the session of a private jar was not cleared since.
func (v *snapshot) holds() bool { return v.shared == nil || v.clears == v.shared.clears.Load() }

// find asks Redis for what memory does not know.
func (s *Store) find(ctx context.Context, key session.Key) (own, shared *session.Record, err error) {
	if err := checkKey(key); err != nil {
		return nil, nil, err
	}
	e, err := s.entry(key)
	if err != nil {
		return nil, nil, err
	}
	st, err := s.look(ctx, e)
	if err != nil || key.Worker == "" {
		return st.recordOf(), nil, err
	}
	sh, err := s.entry(key.Shared())
	if err != nil {
		return nil, nil, err
	}
	shst, err := s.look(ctx, sh)
	return st.recordOf(), shst.recordOf(), err
}

// recordOf is the record of a state that may be unknown.
func (st *state) recordOf() *session.Record {
	if st == nil {
		return nil
	}
	return st.record
}

// look returns the state of e: from memory, from Redis, or, while that is away,
// the last one that memory knows.
func (s *Store) look(ctx context.Context, e *entry) (*state, error) {
	steady, _ := s.clock.read()
	if v := s.valid(e, steady); v != nil && v.holds() {
		return v.state, nil
	}
	if e.node.refusesWrites() {
		e.mu.Lock()
		offered := e.offered()
		e.mu.Unlock()
		if offered != nil {
			return offered, nil
		}
	}
	if e.node.refusesReads() {
		return s.lastKnown(e, session.ErrAway)
	}
	st, err := s.fetch(ctx, e)
	if err != nil && e.node.refusesReads() {
		return s.lastKnown(e, err)
	}
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return s.completed(e, st), nil
}

// lastKnown is what memory shows in an outage.
func (s *Store) lastKnown(e *entry, err error) (*state, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.offered() != nil:
		return e.offer, nil
	case e.last != nil && e.last.holds():
		return e.last.state, nil
	case e.last != nil:
		return new(state), nil
	}
	return nil, err
}

// flight is one read that any number of callers wait for.
type flight struct {
	done  chan struct{}
	state *state
	old   bool // something was invalidated since it began
	err   error
}

// fetch reads e anew. A read that is overtaken by a change is made again, but
// not for ever where a session changes all the time.
func (s *Store) fetch(ctx context.Context, e *entry) (*state, error) {
	for tries := 1; ; tries++ {
		f, err := s.join(ctx, e)
		if err != nil {
			return nil, err
		}
		if !f.old || tries == 3 {
			return f.state, f.err
		}
	}
}

// join waits for a read of e. Callers who come while one is under way share it,
// unless something was invalidated since it began.
func (s *Store) join(ctx context.Context, e *entry) (*flight, error) {
	e.mu.Lock()
	f := e.flight
	if f == nil {
		if !s.begin() {
			e.mu.Unlock()
			return nil, errClosed
		}
		f = &flight{done: make(chan struct{})}
		e.flight = f
		gen := e.gen
		go func() {
			defer s.running.Done()
			s.fly(e, f, gen)
		}()
	}
	e.mu.Unlock()
	select {
	case <-f.done:
		return f, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fly reads e for all who wait for f.
func (s *Store) fly(e *entry, f *flight, gen uint64) {
	ctx, cancel := context.WithTimeout(s.alive, s.budget)
	defer cancel()
	var seen *snapshot
	if seen, f.err = s.read(ctx, e); f.err == nil {
		f.state = seen.state
	}
	e.mu.Lock()
	if e.flight == f {
		e.flight = nil
	}
	if f.err == nil {
		if f.old = e.gen != gen || seen.epoch != s.epoch.Load(); !f.old {
			s.install(e, seen)
		}
	}
	e.mu.Unlock()
	if f.err == nil {
		s.cache.grown(e, f.state)
	} else {
		e.node.failed(e.public, f.err)
	}
	close(f.done)
}

// install makes what was read or written the snapshot to show. e.mu is held,
// and nothing was invalidated since.
func (s *Store) install(e *entry, v *snapshot) {
	s.missed(e, v.state)
	e.last = v
	if e.offered() == nil && s.held(e) == nil {
		e.offer, e.lost = nil, nil
		e.valid.Store(v)
	}
}

// begun is a snapshot to be filled, as of now: what is invalidated from now on
// makes it old.
func (s *Store) begun(e *entry) *snapshot {
	steady, _ := s.clock.read()
	v := &snapshot{read: steady, epoch: s.epoch.Load()}
	if e.key.Worker != "" {
		// One that is evicted meanwhile is never valid again, nor is this.
		v.shared, _ = s.entry(e.key.Shared())
		if v.shared != nil {
			v.clears = v.shared.clears.Load()
		}
	}
	return v
}

// read returns what Redis holds under e, with what workers wrote taken in.
func (s *Store) read(ctx context.Context, e *entry) (*snapshot, error) {
	v := s.begun(e)
	st, err := s.ask(ctx, e)
	for err == nil && e.key.Worker == "" {
		record, refused := s.adopt(e.key, st)
		if record == nil {
			break
		}
		v = s.begun(e)
		done := false
		if st, done, err = s.write(ctx, e, s.plan(e.key, namesOf(e.public), st, record, 0, s.clock.now())); done {
			s.refused(refused)
			break
		}
	}
	v.state = st
	return v, err
}

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

// adopt takes in what workers did. It returns nil where they did nothing.
func (s *Store) adopt(key session.Key, st *state) (*session.Record, []string) {
	if s.silent {
		return nil, nil
	}
	now, site := s.clock.now(), s.site(key.Site)
	jar := st.record.At(now)
	if jar == nil {
		jar = none
	}
	w := reconcile(st, jar, key.Site, &site, now)
	ends, mend := lifeOf(st, jar, &site, now)
	switch {
	case w.cleared:
		return &session.Record{Jar: jar.Clear(s.clock.tick()), Used: st.record.Used, Ends: st.record.Ends}, nil
	case w.nothing() && !mend:
		return nil, nil
	}
	next, outcomes := jar.Apply(w.update, s.clock.tick())
	if !st.record.Live(now) {
		ends = max(ends, session.EndOf(key, next, nil, now, site.Life))
	}
	used := now
	if st.record != nil && len(w.update.Cookies) == 0 {
		used = st.record.Used
	}
	return &session.Record{Jar: next, Used: used, Ends: ends}, w.refusals(outcomes)
}

// slack is how far the end of a mirror may be from that of its session before
// somebody else must have set it, in microseconds.
const slack = int64(time.Second / time.Microsecond)

// lifeOf says when the session ends, and whether its mirror has to be told. A
// worker may make its life longer, but for the site's absolute end; a shorter
// one, or one without end, is put right.
func lifeOf(st *state, jar *session.Jar, site *Site, now int64) (ends int64, mend bool) {
	if !st.record.Live(now) {
		return st.mirrorEnds, false
	}
	ends = st.record.Ends
	if off := st.mirrorEnds - ends; st.digest == "" || -slack <= off && off <= slack {
		return ends, false
	}
	latest := st.mirrorEnds
	if site.Life.Max > 0 {
		latest = min(latest, jar.Created().Add(site.Life.Max).UnixMicro())
	}
	return max(ends, latest), true
}

var none = new(session.Jar)
