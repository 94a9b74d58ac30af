package captcha

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Service is who solves, and on how many threads. The zero value is nobody:
// tokens come from the store alone.
type Service struct {
	Solver Solver
	// Threads bounds the tasks that all proxies of the store have open.
	// 0: as many as Plan says.
	Threads int
	Plan    func(ctx context.Context) (int, error)
}

// Options are the parts of a pool. Only Store is needed.
type Options struct {
	Store   Store
	Service Service
	Log     *slog.Logger // default: none
	// Solved hears of each solve that ended, for metrics and audit. It is
	// called by many goroutines and does not wait.
	Solved func(Solve)
}

// Solve is one task that ended, as metrics and audit have it.
type Solve struct {
	Key     Key // prints with its sitekey masked
	Type    Type
	Purpose Purpose
	Took    time.Duration // with the wait for a thread
	Outcome string        // "solved", or a word from a short list
	Spent   int           // of the site's budget in this hour
	Err     error         // nil where it was solved; holds no secret
}

// Purpose is what a solve was begun for.
type Purpose string

// The values of Purpose.
const (
	ForForm  Purpose = "form"     // a client waited
	ForPage  Purpose = "prefetch" // a client was shown the page
	ForStock Purpose = "stock"    // the pool keeps some ready
)

// Source says where a token came from.
type Source string

// The values of Source.
const (
	FromPool   Source = "pool"
	Prefetched Source = "prefetch" // begun when a client was shown the page
	Solved     Source = "solved"   // for whoever asked
	TestKey    Source = "test"     // documented for a published test key
	Static     Source = "static"   // the rule's own constant
)

// Ask is a rule's wish for a token.
type Ask struct {
	Task
	PerHour int           // the site's budget
	MaxWait time.Duration // how long a client waits
	Stock   int           // how many are kept ready while the key is needed
	// Static is the token itself, for a site in test mode that takes one
	// constant. Nothing is solved, and nothing but the token is looked at.
	Static string
}

// Pool gives tokens to forms. It is safe for concurrent use.
type Pool struct {
	store   Store
	spare   *Memory // in the store's place while that is away
	threads *threads
	proxy   string
	log     *slog.Logger
	solved  func(Solve)

	ctx    context.Context // of solves and of the upkeep: until Close
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	solver Solver
	lines  map[Key]*line
	turn   int
	back   time.Time // until when the store is taken to be away
}

// line is what one key's askers wait in. Its fields are guarded by the pool's mu.
type line struct {
	ask     Ask // the latest, or the one that Keep said
	asked   time.Time
	kept    bool // configured with a stock
	waiting []*waiter
	flights []*flight
	ready   int // when last looked at
	rest    time.Time
}

// waiter is one Get. Its channel has room for the answer.
type waiter struct{ answer chan answer }

type answer struct {
	token  Token
	source Source
	err    error
}

// New returns a pool. Its goroutines run until Close.
func New(o Options) *Pool {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Solved == nil {
		o.Solved = func(Solve) {}
	}
	p := &Pool{
		store: o.Store, spare: NewMemory(), proxy: rand.Text(), log: o.Log, solved: o.Solved,
		lines: map[Key]*line{},
	}
	p.threads = newThreads(p.proxy, o.Store, o.Log)
	p.Use(o.Service)
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.wg.Go(p.upkeep)
	return p
}

// Use changes who solves. What is being solved ends as it began.
func (p *Pool) Use(s Service) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.solver = s.Solver
	p.threads.use(s)
}

// solves says whether anybody does.
func (p *Pool) solves() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.solver != nil
}

// Close ends what waits and what is being solved, and waits for it. A task
// that is open at the service stays so, and its token is lost.
func (p *Pool) Close() {
	p.mu.Lock() // no solve begins after this
	p.cancel(ErrClosed)
	p.mu.Unlock()
	p.wg.Wait()
}

// Get returns a token for one request and no other, or says why there is none:
// [ErrMaxWait], [ErrNoSolver], a [BudgetError], the solver's own error. Whoever
// asks first is served first. Where ctx ends, or the wait, the solve goes on,
// and its token is for whoever asks next.
func (p *Pool) Get(ctx context.Context, a Ask) (Token, Source, error) {
	if a.Static != "" {
		return Token{Value: a.Static, Expires: time.Now().Add(a.Type.Life())}, Static, nil
	}
	if err := a.Check(); err != nil {
		return Token{}, "", err
	}
	if value, known, err := testToken(a.SiteKey); known {
		return Token{Value: value, Expires: time.Now().Add(a.Type.Life())}, TestKey, err
	}
	key := a.Key()
	if !p.enter(key, a) {
		t, err := p.pop(ctx, key)
		if err == nil {
			return t, t.source(), nil
		}
		// A store that has none, or something else in its place, keeps nobody
		// from solving.
		switch {
		case p.solves():
		case errors.Is(err, ErrEmpty):
			return Token{}, "", ErrNoSolver
		default:
			return Token{}, "", err
		}
	}
	w := p.join(key, a)
	limit := time.NewTimer(a.MaxWait)
	defer limit.Stop()
	var err error
	select {
	case got := <-w.answer:
		return got.token, got.source, got.err
	case <-limit.C:
		err = ErrMaxWait
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-p.ctx.Done():
		err = ErrClosed
	}
	if got, answered := p.leave(key, w); answered && got.err == nil {
		if ctx.Err() == nil {
			return got.token, got.source, nil // it came at the last moment
		}
		p.Return(context.WithoutCancel(ctx), key, got.token)
	}
	return Token{}, "", err
}

// enter notes that a key was asked for, and says whether others wait for it.
func (p *Pool) enter(key Key, a Ask) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.line(key)
	l.want(a)
	return len(l.waiting) > 0
}

// line returns a key's. It is called with mu held.
func (p *Pool) line(key Key) *line {
	l := p.lines[key]
	if l == nil {
		l = &line{}
		p.lines[key] = l
	}
	return l
}

// want notes that a key was asked for. What is configured for its stock stays.
func (l *line) want(a Ask) {
	l.asked = time.Now()
	if !l.kept {
		l.ask = a
	}
}

// join puts a waiter at the end of the line, and a solve under way for it.
func (p *Pool) join(key Key, a Ask) *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &waiter{make(chan answer, 1)}
	l := p.line(key)
	l.waiting = append(l.waiting, w)
	if l.live() < len(l.waiting) {
		p.begin(key, a, ForForm)
	}
	return w
}

// leave takes a waiter out of the line, unless it was answered meanwhile. A
// solve that was for it and holds no thread yet is called off.
func (p *Pool) leave(key Key, w *waiter) (answer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case got := <-w.answer:
		return got, true
	default:
	}
	l := p.line(key)
	for i := range l.waiting {
		if l.waiting[i] == w {
			l.waiting = append(l.waiting[:i:i], l.waiting[i+1:]...)
			break
		}
	}
	l.trim()
	return answer{}, false
}

// serve hands a token to whoever has waited longest. It returns false where
// nobody waits.
func (p *Pool) serve(key Key, t Token, source Source) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.line(key).serve(t, source)
}

// serve is called with the pool's mu held.
func (l *line) serve(t Token, source Source) bool {
	if len(l.waiting) == 0 {
		return false
	}
	l.waiting[0].answer <- answer{token: t, source: source}
	l.waiting = l.waiting[1:]
	l.trim()
	return true
}

// Return gives back a token that was got and not sent.
func (p *Pool) Return(ctx context.Context, key Key, t Token) {
	if p.serve(key, t, t.source()) {
		return
	}
	if err := p.keep(ctx, key, t, Store.Return); err != nil {
		p.log.Warn("a token that was not used is lost", "key", key.String(), "err", err)
	}
}

// Push puts in a token that somebody else solved. It lives [ForeignLife].
func (p *Pool) Push(ctx context.Context, key Key, token string) error {
	if err := errors.Join(key.Check(), CheckToken(token)); err != nil {
		return err
	}
	p.mu.Lock()
	p.line(key).asked = time.Now() // so that it is looked after
	p.mu.Unlock()
	return p.keep(ctx, key, Token{Value: token, Expires: time.Now().Add(ForeignLife)}, Store.Push)
}

// Prefetch begins a solve for a page that a client was shown, where its key was
// needed within the hour before, none is ready, and none is under way.
func (p *Pool) Prefetch(ctx context.Context, a Ask, shown time.Time) {
	if _, test, _ := testToken(a.SiteKey); test || !p.solves() || a.Check() != nil {
		return
	}
	key := a.Key()
	state, err := p.look(ctx, key)
	if err != nil || !state.Needed || state.Ready > 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// Who has asked since is in need, and may be whom the page was shown to.
	if l := p.line(key); l.live() == 0 && !l.asked.After(shown) {
		p.begin(key, a, ForPage)
	}
}

// Warm begins n solves, whose tokens will be ready.
func (p *Pool) Warm(a Ask, n int) error {
	if err := a.Check(); err != nil {
		return err
	}
	if _, test, _ := testToken(a.SiteKey); test {
		return errTestKey
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.solver == nil {
		return ErrNoSolver
	}
	l := p.line(a.Key())
	l.want(a)
	for range n {
		p.begin(a.Key(), a, ForStock)
	}
	return nil
}
