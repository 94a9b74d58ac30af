// Package redislock shares the turns of logins through Redis: between proxies,
// and with workers of other programs that take a session's lock by SET NX EX
// before they log in.
//
// The lock is the String session:lock:S, S being the site's key, or key~id for
// a session other than the default. Whose value begins with [login.Mark] is a
// proxy's. What is the proxies' own stands in companions whose hash tag is the
// lock's whole name, so that a Cluster keeps them together: a Hash :login with
// the last fence, and for each login one with its turn, its answer and its
// failures.
//
// Which client to talk with is its caller's part.
package redislock

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	_ "embed" // the scripts
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/session"
)

// Locks are [login.Locks]. Make them with New.
type Locks struct {
	client redis.UniversalClient
	prefix string
	limit  time.Duration

	mu    sync.Mutex // guards names
	names map[login.Login]string
}

var _ login.Locks = (*Locks)(nil)

// New returns the Locks behind client, which has to obey the deadlines of
// contexts. prefix begins every key: "session:". limit bounds each request to
// Redis, tries again included: without an answer the proxy goes on alone.
func New(client redis.UniversalClient, prefix string, limit time.Duration) *Locks {
	return &Locks{client: client, prefix: prefix, limit: limit, names: map[login.Login]string{}}
}

var (
	//go:embed take.lua
	takeLua string
	//go:embed keep.lua
	keepLua string
	//go:embed end.lua
	endLua string
	//go:embed void.lua
	voidLua string
	//go:embed note.lua
	noteLua string
	//go:embed status.lua
	statusLua string

	takeScript = redis.NewScript(takeLua)
	keepScript = redis.NewScript(keepLua)
	endScript  = redis.NewScript(endLua)
	voidScript = redis.NewScript(voidLua)
	noteScript = redis.NewScript(noteLua)

	statusScript = redis.NewScript(statusLua)
)

// lock is the name that workers know.
func (l *Locks) lock(key session.Key) string {
	s := key.Site
	if key.ID != session.DefaultID {
		s += "~" + key.ID
	}
	return l.prefix + "lock:" + s
}

func (l *Locks) keys(of login.Login) []string {
	lock := l.lock(of.Key)
	return []string{lock, "{" + lock + "}:login", "{" + lock + "}:turn:" + l.name(of)}
}

// rounds make it slow to find out by trial what was logged in with: a name
// depends on a password, and whoever reads Redis reads it.
const rounds = 20_000

// maxNames bounds what is kept of that work.
const maxNames = 1024

func (l *Locks) name(of login.Login) string {
	l.mu.Lock()
	name, ok := l.names[of]
	l.mu.Unlock()
	if ok {
		return name
	}
	b, err := pbkdf2.Key(sha256.New, of.Name, []byte(l.lock(of.Key)), rounds, 16)
	if err != nil {
		panic(err) // only for lengths that FIPS 140 forbids
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.names) >= maxNames {
		clear(l.names)
	}
	name = hex.EncodeToString(b)
	l.names[of] = name
	return name
}

func flag(set bool) int {
	if set {
		return 1
	}
	return 0
}

// Take is of [login.Locks].
func (l *Locks) Take(ctx context.Context, a login.Ask) (login.Grant, error) {
	keys := l.keys(a.Login) // before the clock runs: it may take some time
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	reply, err := takeScript.Run(ctx, l.client, keys, a.Holder, a.Waited.Milliseconds(), a.Overdue.Milliseconds(),
		flag(a.Guest), flag(a.Force), a.Life.Milliseconds(), login.Mark).StringSlice()
	if err != nil {
		return login.Grant{}, fmt.Errorf("take the login lock %s: %w", keys[0], err)
	}
	g, err := grant(reply)
	if err != nil {
		return login.Grant{}, fmt.Errorf("take the login lock %s: %w", keys[0], err)
	}
	return g, nil
}

var errReply = errors.New("its companions hold what no proxy wrote")

// grant reads what take.lua returns: the state, then its parts.
func grant(reply []string) (login.Grant, error) {
	r := parts{reply: reply}
	g := login.Grant{State: login.State(r.int())}
	switch g.State {
	case login.Busy:
	case login.Granted:
		g.Fence, g.Failures, g.Hindered = r.int(), int(r.int()), int(r.int())
		for len(r.reply) > 0 {
			g.Won = append(g.Won, time.Now().Add(-r.millis()))
		}
	case login.Answered:
		g.Answer = &login.Answer{Status: int(r.int()), Version: r.int(), Location: r.string(), ContentType: r.string()}
		if body := r.string(); body != "" {
			g.Answer.Body = []byte(body)
		}
	case login.Resting:
		g.Failures, g.Until, g.Why, g.Cause = int(r.int()), time.Now().Add(r.millis()), r.string(), login.Cause(r.int())
	default:
		r.failed = true
	}
	if r.failed {
		return login.Grant{}, errReply
	}
	return g, nil
}

// parts reads a script's reply. After a fault it returns zeros.
type parts struct {
	reply  []string
	failed bool
}

func (p *parts) string() string {
	if len(p.reply) == 0 {
		p.failed = true
		return ""
	}
	s := p.reply[0]
	p.reply = p.reply[1:]
	return s
}

func (p *parts) int() int64 {
	n, err := strconv.ParseInt(p.string(), 10, 64)
	p.failed = p.failed || err != nil
	return n
}

func (p *parts) millis() time.Duration { return time.Duration(p.int()) * time.Millisecond }

// Keep is of [login.Locks].
func (l *Locks) Keep(ctx context.Context, h login.Hold, life time.Duration) (bool, error) {
	keys := l.keys(h.Login)
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	last, err := keepScript.Run(ctx, l.client, keys, h.Holder, h.Fence, life.Milliseconds()).Bool()
	if err != nil {
		return false, fmt.Errorf("keep the login lock %s: %w", keys[0], err)
	}
	return last, nil
}

// counter is the field that counts logins that came to nothing.
var counter = map[login.Cause]string{login.Refused: "failures", login.Hindered: "hindered"}

// End is of [login.Locks].
func (l *Locks) End(ctx context.Context, h login.Hold, r login.Result) error {
	keys := l.keys(h.Login)
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	args := []any{h.Holder, h.Fence}
	if a := r.Answer; a != nil {
		args = append(args, r.Keep.Milliseconds(), a.Status, a.Version, a.Location, a.ContentType, a.Body, r.Count.Milliseconds(), login.MaxWon)
	} else {
		args = append(args, 0, r.Rest.Milliseconds(), r.Why, counter[r.Cause], int(r.Cause))
	}
	if err := endScript.Run(ctx, l.client, keys, args...).Err(); err != nil {
		return fmt.Errorf("end the login lock %s: %w", keys[0], err)
	}
	return nil
}

// Void is of [login.Locks].
func (l *Locks) Void(ctx context.Context, key session.Key, version int64) error {
	lock := l.lock(key)
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	if err := voidScript.Run(ctx, l.client, []string{"{" + lock + "}:login"}, version).Err(); err != nil {
		return fmt.Errorf("void the answers of %s: %w", lock, err)
	}
	return nil
}

// Note is of [login.Locks].
func (l *Locks) Note(ctx context.Context, key session.Key, s login.Shown) error {
	lock := l.lock(key)
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	if err := noteScript.Run(ctx, l.client, []string{"{" + lock + "}:login"}, s.Version, int(s.Verdict), s.Rule, s.Time.UnixMilli()).Err(); err != nil {
		return fmt.Errorf("note how the session of %s stands: %w", lock, err)
	}
	return nil
}

// Status is of [login.Locks].
func (l *Locks) Status(ctx context.Context, of login.Login) (login.Status, error) {
	keys := l.keys(of)
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	reply, err := statusScript.Run(ctx, l.client, keys[1:]).StringSlice()
	r := parts{reply: reply}
	s := login.Status{}
	s.Version, s.Verdict, s.Rule = r.int(), login.Verdict(r.int()), r.string()
	if seen := r.int(); seen > 0 {
		s.Time = time.UnixMilli(seen)
	}
	failures, left, why, cause := int(r.int()), r.millis(), r.string(), login.Cause(r.int())
	if err == nil && (r.failed || s.Verdict > login.Out) {
		err = errReply
	}
	if err != nil {
		return login.Status{}, fmt.Errorf("ask how the session of %s stands: %w", keys[0], err)
	}
	if left > 0 {
		s.Failed = &login.RestError{Failures: failures, Until: time.Now().Add(left), Why: why, Cause: cause}
	}
	return s, nil
}
