package captchaai

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
)

// The service's timing, and how often what is tried again.
const (
	pollPeriod  = 5 * time.Second // the documents forbid less
	solveTime   = 120 * time.Second
	graceTime   = 60 * time.Second // after which a task that never ended is taken to have ended
	firstPause  = 5 * time.Second  // after a fault, doubling
	longPause   = 30 * time.Second
	serverPause = 10 * time.Second // after a fault that the service admits, doubling

	maxBusy    = 5 // submissions that found no thread
	maxFaults  = 5 // submissions that the service answered with a fault of its own, or that reached nobody
	maxUnclear = 2 // repeats of a submission that may have been taken
	maxAgain   = 2 // new tasks after one that was given up
)

// minScore is asked of reCAPTCHA v3. Higher ones are rarely reached.
const minScore = 0.3

// Solve has a form's widget solved: it is a [captcha.Solver]. The answer is one
// string that can stand in a form.
func (c *Client) Solve(ctx context.Context, t captcha.Task, open captcha.Opener) (captcha.Answer, error) {
	if err := t.Check(); err != nil {
		return captcha.Answer{}, &Error{Op: "solve", Class: BadTask, Err: err}
	}
	res, err := c.Do(ctx, requestFor(t), open)
	if err != nil {
		return captcha.Answer{}, err
	}
	if err := captcha.CheckToken(res.Text); err != nil {
		return captcha.Answer{}, &Error{Op: "solve", Class: Unsolvable, Err: err}
	}
	return captcha.Answer{Token: res.Text, Issued: res.Issued}, nil
}

func requestFor(t captcha.Task) Request {
	if t.Type == captcha.Turnstile {
		return TurnstileWidget{SiteKey: t.SiteKey, Page: t.Page, Action: t.Action}.Request()
	}
	w := Recaptcha{SiteKey: t.SiteKey, Page: t.Page, Invisible: t.Type.IsInvisible(), Enterprise: t.Type.IsEnterprise()}
	if t.Type.IsV3() {
		w.V3, w.Action, w.MinScore = true, t.Action, minScore
	}
	return w.Request()
}

// Do has any task solved: it submits it, waits for its answer, and does again
// what may be done again. It opens a slot for each submission.
func (c *Client) Do(ctx context.Context, r Request, open captcha.Opener) (Result, error) {
	for again := 0; ; again++ {
		slot, id, err := c.submit(ctx, r, open)
		if err != nil {
			return Result{}, err
		}
		res, err := c.await(ctx, r, id, slot)
		e, _ := errors.AsType[*Error](err)
		if e == nil || again == maxAgain {
			return res, err
		}
		switch {
		case e.Class == Unsolvable:
		case e.Code == "ERROR_PROXY_CONNECTION_FAILED" && again == 0:
		default:
			return res, err
		}
	}
}

// submit hands a task in, and returns the slot that it holds.
func (c *Client) submit(ctx context.Context, r Request, open captcha.Opener) (captcha.Slot, ID, error) {
	var busy, faults, unclear int
	slot, err := open(ctx)
	if err != nil {
		return nil, "", err
	}
	for {
		c.open.Add(1)
		id, err := c.Submit(ctx, r)
		if err == nil {
			return slot, id, nil
		}
		c.open.Add(-1)
		e, ok := errors.AsType[*Error](err)
		if !ok {
			slot.Refused()
			return nil, "", err
		}
		var pause time.Duration
		switch e.Class {
		case Busy:
			slot.Busy()
			if busy++; busy == maxBusy {
				slot.Refused()
				return nil, "", c.stillBusy(e)
			}
			pause = doubled(firstPause, busy)
		case ServerFault, Unreachable, TooFast: // TooFast: the breaker makes us wait
			if faults++; faults == maxFaults {
				slot.Refused()
				return nil, "", err
			}
			pause = firstPause
			if e.Class == ServerFault {
				pause = serverPause
			}
			pause = doubled(pause, faults)
		case Unclear:
			// The task may run, and hold a thread until it is solved.
			slot.Hold(time.Now().Add(solveTime))
			if unclear++; unclear > maxUnclear || ctx.Err() != nil {
				return nil, "", err
			}
			c.log.Warn("a captcha was submitted and nobody knows whether it was taken; it is submitted again, and may be paid twice",
				"err", e, "repeat", unclear)
			if err := sleep(ctx, jittered(doubled(firstPause, unclear))); err != nil {
				return nil, "", &Error{Op: "submit", Class: Deadline, Err: err}
			}
			if slot, err = open(ctx); err != nil {
				return nil, "", err
			}
			continue
		default:
			slot.Refused()
			return nil, "", err
		}
		if err := sleep(ctx, jittered(pause)); err != nil {
			slot.Refused()
			return nil, "", &Error{Op: "submit", Class: Deadline, Code: e.Code, Status: e.Status, Err: err}
		}
	}
}

// stillBusy tells a matter of the moment from one of the plan: where nothing of
// ours is open and all threads are taken for this long, there are none for us.
func (c *Client) stillBusy(e *Error) error {
	if c.open.Load() > 0 {
		return e
	}
	none := &Error{Op: e.Op, Class: NoThreads, Code: e.Code, Status: e.Status}
	c.breaker.trip(c.log, none, threadsTime)
	return none
}

// await asks for a task's answer until there is one. It ends the slot.
func (c *Client) await(ctx context.Context, r Request, id ID, slot captcha.Slot) (Result, error) {
	defer c.open.Add(-1)
	submitted := time.Now()
	unsolved := submitted
	ctx, cancel := context.WithDeadlineCause(ctx, submitted.Add(solveTime), errors.New("not solved in time"))
	defer cancel()
	wait, faults, last := jittered(r.firstPoll()), 0, error(nil)
	for {
		if err := sleep(ctx, wait); err != nil {
			slot.Hold(submitted.Add(solveTime + graceTime))
			if last != nil {
				err = last
			}
			return Result{}, &Error{Op: "result", Class: Deadline, Err: err}
		}
		asked := time.Now()
		res, err := c.Result(ctx, r.Method, id)
		if err == nil {
			slot.Done()
			res.Issued = unsolved
			return res, nil
		}
		e, ok := errors.AsType[*Error](err)
		if !ok {
			slot.Hold(submitted.Add(solveTime + graceTime))
			return Result{}, err
		}
		wait = jittered(pollPeriod)
		switch e.Class {
		case Pending:
			unsolved, faults, last = asked, 0, nil
		case ServerFault:
			faults, last = faults+1, err
			wait = jittered(doubled(serverPause, faults))
		case Unreachable, TooFast, Busy:
			faults, last = faults+1, err
			wait = max(jittered(doubled(firstPause, faults)), e.RetryAfter)
		case BadKey, Banned, Deadline: // the task may go on without us
			slot.Hold(submitted.Add(solveTime + graceTime))
			return Result{}, err
		default:
			slot.Done()
			return Result{}, err
		}
		if e.Class == ServerFault && faults >= maxFaults {
			slot.Hold(submitted.Add(solveTime + graceTime))
			return Result{}, err
		}
	}
}

// doubled is the nth pause, of a series that begins with first.
func doubled(first time.Duration, n int) time.Duration {
	return min(first<<min(n-1, 8), longPause)
}

// jittered is up to a tenth longer, so that proxies that began together part,
// and never less than the service asks for.
func jittered(d time.Duration) time.Duration {
	return d + rand.N(d/10+1) //nolint:gosec // spreads calls, guards nothing
}
