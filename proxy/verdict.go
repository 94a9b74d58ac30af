package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/unpack"
	"github.com/sessionproxy/sessionproxy/session"
)

// tells says whether the reply to the request tells anything of the session: it
// is no login page, and the request left with the session's cookies.
func (x *exchange) tells(r *http.Request) bool {
	return x.knowsLogin() && !x.logsIn && x.jar != nil && !x.site.login.Page(sentURL(r)) && !(x.site.policy.ClientWins && len(x.cookie) > 0)
}

// judge asks the rules what a reply shows. Where only its page can tell, the
// page is held if that may lead to another try, or keep the session's cookies
// from harm; else it is looked at on its way, and the verdict comes after it.
func (x *exchange) judge(r *http.Request, resp *http.Response) login.Judgment {
	reply := x.reply(r, resp)
	j, known := x.site.login.Judge(reply)
	if known {
		return j
	}
	if !x.mayRetry(r) && !x.endangers(reply.Cookies) {
		resp.Body = &watched{ReadCloser: resp.Body, encoding: first(resp.Header, "Content-Encoding"), limit: login.MaxPage, length: resp.ContentLength, look: func(raw []byte, encoding string) {
			reply.Page = login.Unpack(encoding, raw)
			if j, _ := x.site.login.Judge(reply); j.Verdict != login.Unknown {
				x.judged = j
				x.note(j)
			}
		}}
		return login.Judgment{}
	}
	reply.Page = x.holdPage(resp)
	j, _ = x.site.login.Judge(reply)
	return j
}

// reply is what the rules look at. A page that does not come is an empty one.
func (x *exchange) reply(r *http.Request, resp *http.Response) login.Reply {
	reply := x.site.login.Read(resp, sentURL(r), session.Setting{Host: x.target.host, Path: cookiePath(r), Secure: x.target.secure}, time.Now())
	if resp.Body == http.NoBody || resp.ContentLength == 0 || x.method == http.MethodHead {
		reply.Page = []byte{}
	}
	return reply
}

// endangers says whether cookies would replace those of a login.
func (x *exchange) endangers(cookies []session.Cookie) bool {
	return slices.ContainsFunc(cookies, func(c session.Cookie) bool {
		return slices.ContainsFunc(x.jar.Cookies(), func(have session.Cookie) bool {
			return have.Login > 0 && have.Identity() == c.Identity() && have.Value != c.Value
		})
	})
}

// late says whether the session has moved on since the request left: what the
// reply to that shows, it shows of an older state.
func (x *exchange) late() bool {
	now := x.load(x.key)
	return now.Renewed() > x.jar.Version() || now.Floor() > x.jar.Version()
}

// note remembers what a reply has shown of the session. A late one has shown
// nothing, nor has one to a request that left without the session.
func (x *exchange) note(j login.Judgment) {
	if x.jar == unknownJar || x.late() || !x.p.note(x, x.key, j, x.jar.Version(), x.load(x.key).Login()) || j.Verdict != login.Out {
		return
	}
	x.p.turns.Void(context.WithoutCancel(x), x.key, x.jar.Version())
	x.p.log.Info("session is logged out", "id", x.exchangeID(), "site", x.site.Name, "session", x.key.ID, "rule", j.Rule)
}

// note remembers what is known of a session, here and at the other proxies. It
// returns true where it was not known.
func (p *Proxy) note(ctx context.Context, key session.Key, j login.Judgment, version, last int64) bool {
	if !p.verdicts.Note(key, j, version, last) {
		return false
	}
	p.turns.Note(context.WithoutCancel(ctx), key, login.Shown{Judgment: j, Version: version, Time: time.Now()})
	return true
}

// drop lets go of a response that nobody will see. A short one is read, so that
// its connection can be used again.
func (x *exchange) drop(resp *http.Response) {
	if resp.ContentLength > 0 && resp.ContentLength <= maxDrop {
		x.ahead(resp, func(int) bool { return false })
	}
	resp.Body.Close()
}

const maxDrop = 16 << 10

// sentURL is the URL of a request, its path as it is sent: see keepPath.
func sentURL(r *http.Request) *url.URL {
	if r.URL.Opaque == "" {
		return r.URL
	}
	u := *r.URL
	u.Opaque, u.RawPath = "", r.URL.Opaque
	return &u
}

// holdPage reads what the rules look at of a page before the client gets any
// of it, and returns that, unpacked.
func (x *exchange) holdPage(resp *http.Response) []byte {
	encoding := first(resp.Header, "Content-Encoding")
	a := x.ahead(resp, func(n int) bool { return login.Enough(encoding, n) })
	return login.Unpack(encoding, a.bytes())
}

// holdLimit bounds the wait for a page: one that is written as it comes to be
// must not wait for its end.
const holdLimit = 5 * time.Second

// ahead reads the body of a response until enough of it is there, it ends, or
// holdLimit is over. What has been read is relayed first.
func (x *exchange) ahead(resp *http.Response, enough func(int) bool) *aheadBody {
	a, ok := resp.Body.(*aheadBody)
	switch {
	case resp.Body == http.NoBody:
		return &aheadBody{err: io.EOF}
	case !ok:
		a = &aheadBody{src: resp.Body}
		resp.Body = a
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil || enough(len(a.held)) || a.reading != nil {
		return a
	}
	reading, stop := make(chan struct{}), make(chan struct{})
	a.reading = reading
	a.reader.Go(func() { a.read(enough, stop, reading) })
	a.mu.Unlock()
	late := time.NewTimer(holdLimit)
	defer late.Stop()
	select {
	case <-reading:
	case <-late.C:
	case <-x.Done():
	}
	close(stop)
	a.mu.Lock()
	return a
}

// aheadBody is a body whose beginning is read before it is relayed.
type aheadBody struct {
	src    io.ReadCloser
	reader sync.WaitGroup // reads the beginning

	mu      sync.Mutex    // guards what follows
	held    []byte        // read, and not relayed
	err     error         // that ended the reading
	reading chan struct{} // closed when the beginning is read; nil: nobody reads
}

func (a *aheadBody) read(enough func(int) bool, stop, done chan struct{}) {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	for {
		n, err := a.src.Read(buf[:])
		a.mu.Lock()
		a.held = append(a.held, buf[:n]...)
		a.err = err
		over := err != nil || enough(len(a.held))
		select {
		case <-stop:
			over = true
		default:
		}
		if over {
			a.reading = nil
			close(done)
		}
		a.mu.Unlock()
		if over {
			return
		}
	}
}

// bytes is what has been read until now.
func (a *aheadBody) bytes() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return bytes.Clone(a.held)
}

// whole says whether that is all of it.
func (a *aheadBody) whole() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return errors.Is(a.err, io.EOF)
}

// Read returns what was read ahead, then the rest.
func (a *aheadBody) Read(p []byte) (int, error) {
	for {
		a.mu.Lock()
		held, reading, err := len(a.held), a.reading, a.err
		n := copy(p, a.held)
		a.held = a.held[n:]
		a.mu.Unlock()
		switch {
		case held > 0:
			return n, nil
		case err != nil:
			return 0, err
		case reading == nil:
			return a.src.Read(p)
		}
		<-reading
	}
}

// Close ends the response.
func (a *aheadBody) Close() error {
	err := a.src.Close()
	a.reader.Wait()
	return err
}

// watched is a body that is looked at on its way.
type watched struct {
	io.ReadCloser
	encoding string
	limit    int   // of what is looked at, unpacked
	length   int64 // as announced; -1: unknown
	seen     []byte
	look     func(raw []byte, encoding string) // once; nil afterwards
}

func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.look == nil {
		return n, err
	}
	b.seen = append(b.seen, p[:n]...)
	// The client has all of it before the end is read, and may send its form.
	whole := b.length >= 0 && int64(len(b.seen)) >= b.length
	if whole || errors.Is(err, io.EOF) || unpack.Enough(b.encoding, len(b.seen), b.limit) {
		b.look(b.seen, b.encoding)
		b.look, b.seen = nil, nil
	}
	return n, err
}

// newBody is a body that is in memory.
func newBody(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }
