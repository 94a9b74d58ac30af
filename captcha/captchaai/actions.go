package captchaai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strconv"
	"time"
)

// ID names a task at the service. Whoever has it and the key has its token, so
// it prints as the key does.
type ID string

// Format writes dots.
func (ID) Format(f fmt.State, verb rune) { Key("").Format(f, verb) }

// LogValue returns dots.
func (ID) LogValue() slog.Value { return Key("").LogValue() }

var idForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// Submit hands a task to the service. Where its error's class is [Unclear],
// the task may have been taken.
func (c *Client) Submit(ctx context.Context, r Request) (ID, error) {
	if err := r.check(); err != nil {
		return "", &Error{Op: "submit", Class: BadTask, Err: err}
	}
	got, err := c.call(ctx, "submit", "/in.php", r.values(), r.File)
	if err != nil {
		return "", err
	}
	if !idForm.MatchString(got.text) {
		return "", &Error{Op: "submit", Class: Unclear, Err: errors.New("the reply holds no ID")}
	}
	return ID(got.text), nil
}

func (r Request) values() url.Values {
	v := url.Values{"method": {r.Method}}
	for name, values := range r.Params {
		v[name] = values
	}
	return v
}

// Result asks once for the answer to a task. Not yet is an error of the class
// [Pending]. The method is that of the request.
func (c *Client) Result(ctx context.Context, method string, id ID) (Result, error) {
	asked := time.Now()
	got, err := c.call(ctx, "result", "/res.php", url.Values{"action": {"get"}, "id": {string(id)}}, nil)
	if err != nil {
		return Result{}, err
	}
	return answered(method, got, asked)
}

func answered(method string, got reply, asked time.Time) (Result, error) {
	res, ok := resultOf(method, got)
	if !ok || got.bare {
		return Result{}, &Error{Op: "result", Class: Unreachable, Err: errNoAnswer}
	}
	res.Issued = asked
	return res, nil
}

// ReadImage has an image read in one call, without asking again: /solve.php
// takes what in.php takes, for the methods post and base64.
func (c *Client) ReadImage(ctx context.Context, r Request) (Result, error) {
	if r.Method != Post && r.Method != Base64 {
		return Result{}, &Error{Op: "read image", Class: BadTask, Err: errors.New("the method is to be post or base64")}
	}
	if err := r.check(); err != nil {
		return Result{}, &Error{Op: "read image", Class: BadTask, Err: err}
	}
	asked := time.Now()
	got, err := c.call(ctx, "read image", "/solve.php", r.values(), r.File)
	if err != nil {
		return Result{}, err
	}
	return answered(r.Method, got, asked)
}

// Balance returns what the account holds, in the service's currency. Plans are
// sold by threads, so that 0 does not say that nothing can be solved.
func (c *Client) Balance(ctx context.Context) (float64, error) {
	got, err := c.call(ctx, "balance", "/res.php", url.Values{"action": {"getbalance"}}, nil)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseFloat(got.text, 64)
	if err != nil || n != n {
		return 0, &Error{Op: "balance", Class: Unreachable, Err: errNoAnswer}
	}
	return n, nil
}

// Threads are those of the account's plan.
type Threads struct {
	Total   int // that the plan has
	Working int // by whomever
	Free    int
}

// ThreadsInfo asks for the plan's threads. It is the one call that tells
// whether a key is good and costs nothing.
func (c *Client) ThreadsInfo(ctx context.Context) (Threads, error) {
	got, err := c.call(ctx, "threads", "/res.php", url.Values{"action": {"threadsinfo"}}, nil)
	if err != nil {
		return Threads{}, err
	}
	fields := got.all
	if len(got.value) > 0 && got.value[0] == '{' {
		fields = nil
		_ = json.Unmarshal(got.value, &fields) // none: refused below
	}
	total, ok := count(fields["threads"])
	if !ok {
		return Threads{}, &Error{Op: "threads", Class: Unreachable, Err: errors.New("the reply names no threads")}
	}
	working, _ := count(fields["working_threads"])
	free, ok := count(fields["free_threads"])
	if !ok {
		free = max(total-working, 0)
	}
	return Threads{total, working, free}, nil
}

func count(raw json.RawMessage) (int, bool) {
	n, err := strconv.Atoi(scalar(raw))
	return n, err == nil && n >= 0 && n <= 1_000_000
}

// ReportBad tells the service that an answer was refused, ReportGood that it
// was taken. A report that is not recorded is an error and no harm.
func (c *Client) ReportBad(ctx context.Context, id ID) error { return c.report(ctx, "reportbad", id) }

// ReportGood is the counterpart of ReportBad.
func (c *Client) ReportGood(ctx context.Context, id ID) error { return c.report(ctx, "reportgood", id) }

func (c *Client) report(ctx context.Context, action string, id ID) error {
	got, err := c.call(ctx, "report", "/res.php", url.Values{"action": {action}, "id": {string(id)}}, nil)
	if err == nil && got.text != "OK_REPORT_RECORDED" {
		err = &Error{Op: "report", Class: Unreachable, Err: errNoAnswer}
	}
	return err
}
