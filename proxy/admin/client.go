package admin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client asks the API of a running proxy.
type Client struct {
	Addr  string // host:port of the API; https://host:port off loopback
	Token string // see [Token]

	// Limit bounds a call. Zero: 10 s.
	Limit time.Duration
}

// Problem is an answer that is no success. What is no answer of the API has no
// Code.
type Problem struct {
	Title  string `json:"title"` // the status in words
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// Error returns the detail.
func (p *Problem) Error() string {
	if p.Code == "" {
		return fmt.Sprintf("answered %d %s", p.Status, http.StatusText(p.Status))
	}
	return p.Detail
}

// direct goes around every proxy, also where the environment names one, and
// follows nobody elsewhere.
var direct = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Limits of one call.
const (
	callTime  = 10 * time.Second
	maxAnswer = 2 * maxImport // the export of a full session, or what became of each cookie of an import
)

// Path is the path of the API's parts, each escaped: one that holds a slash, or
// dots alone, is a part all the same.
func Path(parts ...string) string {
	var b strings.Builder
	b.WriteString("/api/v1")
	for _, part := range parts {
		part = url.PathEscape(part)
		if strings.Trim(part, ".") == "" {
			part = strings.ReplaceAll(part, ".", "%2E")
		}
		b.WriteString("/" + part)
	}
	return b.String()
}

// ErrInClear is why nothing was sent to an API off loopback without TLS.
var ErrInClear = errors.New("a token or password would cross the network in clear: write it with https://, or reach it by a tunnel to this machine")

// base is the URL of the API's root. A name may lead anywhere, but localhost.
func (c Client) base() (string, error) {
	if strings.HasPrefix(c.Addr, "https://") {
		return c.Addr, nil
	}
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", ErrInClear
	}
	return "http://" + c.Addr, nil
}

// Do makes one call: path may have a query, and a body that is not nil is sent
// as JSON. It returns what a success answers with. Its error is a *[Problem]
// where the other side answered anything else.
func (c Client) Do(ctx context.Context, method, path string, body any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Limit, callTime))
	defer cancel()
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
}

// Follow gives each the events of a stream, until ctx ends, the other side ends
// it, or each returns an error. It returns nil for the first two.
func (c Client) Follow(ctx context.Context, path string, each func(event string, data []byte) error) error {
	resp, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	event := ""
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil { // io.EOF: none of the server's events lacks its end
			return nil //nolint:nilerr // the stream has ended, however
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if name, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			event = string(name)
		} else if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			if err := each(event, data); err != nil {
				return err
			}
		}
	}
}

// send returns a success. Its body is the caller's to close.
func (c Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(b)
	}
	base, err := c.base()
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, base+path, content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	resp, err := direct.Do(r)
	if err != nil {
		// Without the URL, whose query may be a secret, and the address, which
		// the caller knows.
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
			err = e.Err
		}
		return nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return nil, err
		}
		p := &Problem{}
		_ = json.Unmarshal(answer, p) // what is none has no code
		p.Status = resp.StatusCode
		return nil, p
	}
	if kind := resp.Header.Get("Content-Type"); strings.HasPrefix(path, "/api/") && kind != "" && kind != "application/json" && kind != "text/event-stream" {
		resp.Body.Close()
		return nil, &Problem{Status: resp.StatusCode} // another program's
	}
	return resp, nil
}
