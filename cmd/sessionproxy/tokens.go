package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/captchaai"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/audit"
)

// openTokens makes the pool of solved captcha tokens.
func (i *instance) openTokens() error {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sessionproxy_captcha_solve_seconds", Help: "Time from asking for a captcha's token until it was solved, the wait for a thread included.",
		Buckets: []float64{2, 5, 10, 15, 20, 30, 45, 60, 90, 120}}, []string{"type"})
	i.tokens = captcha.New(captcha.Options{
		Store: i.tokenStore(),
		Log:   i.log,
		Solved: func(s captcha.Solve) {
			if s.Err == nil {
				seconds.WithLabelValues(string(s.Type)).Observe(s.Took.Seconds())
			}
			i.auditSolve(s)
		},
	})
	i.registry.MustRegister(seconds, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sessionproxy_captcha_tokens", Help: "Solved captcha tokens that are ready."},
		func() float64 { return float64(i.tokens.Ready()) }))
	solver, err := i.openSolver(i.config.CaptchaAI)
	if err != nil {
		return err
	}
	i.useSolver(solver, i.config)
	return nil
}

// auditSolve writes a line for each solve that ended: who pays wants to know.
// The cause of a failure is for the log.
func (i *instance) auditSolve(s captcha.Solve) {
	e := audit.Event{
		Action: audit.CaptchaSolve, Outcome: audit.Done, Site: s.Key.Site, Target: s.Key.String(),
		Captcha: &audit.Captcha{Type: string(s.Type), For: string(s.Purpose), Seconds: s.Took.Seconds(), ThisHour: s.Spent},
	}
	for _, site := range i.current.Load().Sites {
		if site.Key == s.Key.Site {
			e.Site = site.Name
		}
	}
	if s.Err != nil {
		e.Outcome, e.Reason = audit.Failed, s.Outcome
		i.log.Warn("a captcha was not solved", "site", e.Site, "key", s.Key.String(), "type", string(s.Type), "for", string(s.Purpose), "reason", s.Outcome, "err", s.Err)
	}
	i.audit.Write(e)
}

// openSolver makes the client of an account, nil where none is configured. It
// keeps the one that is in use where nothing changed: it knows of bans.
func (i *instance) openSolver(c config.CaptchaAI) (*captchaai.Client, error) {
	if was := i.current.Load().CaptchaAI; i.solver != nil && was.Key == c.Key && was.URL == c.URL {
		return i.solver, nil
	}
	if c.Key == "" {
		return nil, nil
	}
	return captchaai.New(captchaai.Options{Key: captchaai.Key(c.Key), URL: c.URL, Log: i.log})
}

// useSolver puts an account, and the stocks of a configuration, in force.
func (i *instance) useSolver(client *captchaai.Client, c *config.Config) {
	var asks []captcha.Ask
	for _, s := range c.Sites {
		for _, w := range s.Captcha {
			asks = append(asks, w.Ask(s))
		}
	}
	i.tokens.Keep(asks)
	if client == i.solver && c.CaptchaAI == i.current.Load().CaptchaAI && client != nil {
		return // what is learned of the plan's threads stays
	}
	var service captcha.Service
	if client != nil {
		service = captcha.Service{Solver: client, Threads: c.CaptchaAI.Threads, Plan: func(ctx context.Context) (int, error) {
			threads, err := client.ThreadsInfo(ctx)
			return threads.Total, err
		}}
	}
	i.tokens.Use(service)
	if i.solver != nil && i.solver != client {
		i.solver.Close()
	}
	i.solver = client
}
