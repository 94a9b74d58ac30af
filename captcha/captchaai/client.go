package captchaai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// DefaultURL is where the service itself listens.
const DefaultURL = "https://ocr.captchaai.com"

// Key is an API key. It prints as dots, whatever the verb.
type Key string

// KeyLength is that of every key; the service bans addresses that send others.
const KeyLength = 32

// Format writes dots.
func (Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "…") }

// LogValue returns dots.
func (Key) LogValue() slog.Value { return slog.StringValue("…") }

// MarshalText writes dots, for whoever puts options into JSON.
func (Key) MarshalText() ([]byte, error) { return []byte("…"), nil }

// Form says how parameters travel.
type Form int

// The values of Form.
const (
	Mixed Form = iota // in.php by POST, so that the key is in no URL; res.php by query, as every service takes it
	Body              // both by POST
	Query             // both by query
)

// Options are how a client reaches the service. Only Key is needed.
type Options struct {
	Key  Key
	URL  string // without /in.php; default [DefaultURL]
	Form Form
	Log  *slog.Logger // of repeated submissions and open breakers; default: none
	// Dial makes the connections; default: a plain dialler.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Client asks one account's service. It is safe for concurrent use, and what
// one call learns of the account holds for all.
type Client struct {
	key  *Key // a pointer, since fmt prints a struct's own fields without asking their Format
	base *url.URL
	form Form
	log  *slog.Logger

	questions *http.Client
	// Submissions each have a connection of their own: on one that was used
	// before, net/http would repeat a GET unseen when the connection breaks,
	// and each in.php may be a task to pay for.
	submissions *http.Client

	breaker breaker
	open    atomic.Int64 // tasks that the service took and has not answered
	closed  atomic.Bool
}

// Limits of one call.
const (
	callTime = 30 * time.Second
	maxReply = 1 << 20
)

// New returns a client. It calls nobody. An error says what of the options is
// wrong, and does not hold the key.
func New(o Options) (*Client, error) {
	if len(o.Key) != KeyLength || strings.ContainsFunc(string(o.Key), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("captcha service: the API key is to be %d characters, this one has %d", KeyLength, len(o.Key))
	}
	if o.URL == "" {
		o.URL = DefaultURL
	}
	base, err := url.Parse(strings.TrimSuffix(o.URL, "/"))
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.User != nil {
		return nil, errors.New("captcha service: the URL is to be like " + DefaultURL)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	c := &Client{key: &o.Key, base: base, form: o.Form, log: o.Log}
	c.questions = httpClient(o, false)
	c.submissions = httpClient(o, true)
	return c, nil
}

func httpClient(o Options, single bool) *http.Client {
	return &http.Client{
		// No Proxy: the environment's may be ourselves.
		Transport: &http.Transport{
			DialContext:         o.Dial,
			DisableKeepAlives:   single,
			ForceAttemptHTTP2:   true,
			TLSHandshakeTimeout: 10 * time.Second,
			IdleConnTimeout:     30 * time.Second,
			MaxIdleConnsPerHost: 4,
		},
		Timeout: callTime,
		// A redirect would take the key along, and may turn a submission
		// into something else. The service documents none.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close ends idle connections. Solves under way go on, and leave none behind.
func (c *Client) Close() {
	c.closed.Store(true)
	c.closeIdle()
}

func (c *Client) closeIdle() {
	c.questions.CloseIdleConnections()
	c.submissions.CloseIdleConnections()
}

// call makes one call of an endpoint, and reads its reply.
func (c *Client) call(ctx context.Context, op, endpoint string, params url.Values, file *File) (r reply, err error) {
	submits := endpoint != "/res.php"
	if err := c.breaker.enter(ctx, op, submits); err != nil {
		return reply{}, err
	}
	defer func() { c.breaker.learn(c.log, err) }()
	req, err := c.request(ctx, endpoint, submits, params, file)
	if err != nil {
		return reply{}, &Error{Op: op, Class: BadTask, Err: withoutURL(err)}
	}
	var wrote atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// From here on bytes may be out, whatever becomes of the connection.
		GotConn: func(httptrace.GotConnInfo) { wrote.Store(true) },
	}))
	client := c.questions
	if submits {
		client = c.submissions
	}
	resp, err := client.Do(req)
	if err != nil {
		return reply{}, unanswered(ctx, op, submits && wrote.Load(), 0, err)
	}
	defer func() {
		resp.Body.Close()
		if c.closed.Load() {
			c.closeIdle()
		}
	}()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return reply{}, unanswered(ctx, op, submits, resp.StatusCode, err)
	}
	return read(op, submits, resp, body)
}

// read judges a reply that came whole.
func read(op string, submits bool, resp *http.Response, body []byte) (reply, error) {
	e := &Error{Op: op, Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header)}
	r, err := parseReply(body)
	if err == nil && r.code != "" {
		e.Code, e.Class = r.code, classOf(r.code)
		return reply{}, e
	}
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		e.Class, e.Err = TooFast, errors.New("HTTP 429")
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		e.Class, e.Err = BadTask, fmt.Errorf("HTTP %d: it points elsewhere, and the key is not sent there; correct the service's URL", resp.StatusCode)
	case resp.StatusCode >= 400 && resp.StatusCode < 500:
		e.Class, e.Err = BadTask, fmt.Errorf("HTTP %d; is the service's URL right?", resp.StatusCode)
	case resp.StatusCode >= 500, err != nil, r.bare && submits:
		e.Class, e.Err = Unreachable, fmt.Errorf("HTTP %d, %w", resp.StatusCode, errNoAnswer)
		if submits {
			e.Class = Unclear
		}
	default:
		return r, nil
	}
	return reply{}, e
}

// withoutURL takes the URL out of an error, since it may hold the key.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// unanswered is the error of a call that got no reply.
func unanswered(ctx context.Context, op string, unclear bool, status int, err error) error {
	err = withoutURL(err)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	class := Unreachable
	if unclear {
		class = Unclear
	}
	return &Error{Op: op, Class: class, Status: status, Err: err}
}

func (c *Client) request(ctx context.Context, endpoint string, submits bool, params url.Values, file *File) (*http.Request, error) {
	v := url.Values{}
	for name, values := range params {
		v[name] = values
	}
	v.Set("key", string(*c.key))
	v.Set("json", "1") // the default differs between the service's documents
	u := *c.base
	u.Path += endpoint
	if file != nil {
		body, contentType, err := multipartBody(v, file)
		if err != nil {
			return nil, err
		}
		return post(ctx, &u, contentType, body)
	}
	if c.form == Query || c.form == Mixed && !submits {
		u.RawQuery = v.Encode()
		return http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	}
	return post(ctx, &u, "application/x-www-form-urlencoded", strings.NewReader(v.Encode()))
}

func post(ctx context.Context, u *url.URL, contentType string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), body)
	if err == nil {
		req.Header.Set("Content-Type", contentType)
	}
	return req, err
}

func multipartBody(v url.Values, file *File) (io.Reader, string, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for name := range v {
		if err := w.WriteField(name, v.Get(name)); err != nil {
			return nil, "", err
		}
	}
	part, err := w.CreateFormFile("file", file.Name)
	if err != nil {
		return nil, "", err
	}
	if _, err := part.Write(file.Content); err != nil {
		return nil, "", err
	}
	return &b, w.FormDataContentType(), w.Close()
}

// retryAfter reads the field's seconds (RFC 9110 section 10.2.3), an hour at most.
func retryAfter(h http.Header) time.Duration {
	s, err := strconv.Atoi(strings.TrimSpace(h.Get("Retry-After")))
	if err != nil || s < 0 {
		return 0
	}
	return min(time.Duration(s), 3600) * time.Second
}
