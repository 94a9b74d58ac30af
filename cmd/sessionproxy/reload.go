package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha/captchaai"
	"github.com/sessionproxy/sessionproxy/internal/config"
)

// watchEvery is how often the configuration file is looked at. Looking beats
// being told: it sees a file that is replaced, linked anew or mounted.
const watchEvery = time.Second

// reloadOnChange reads the configuration anew on SIGHUP, or when its file has
// changed, until ctx ends. loaded is what the file was before it was read
// first: a change while the proxy starts counts.
func (i *instance) reloadOnChange(ctx context.Context, source config.Source, loaded fileState) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	last := loaded
	for {
		select {
		case <-ctx.Done():
			return
		case done := <-i.reloads:
			loaded = stateOf(source.File)
			i.reload(source)
			close(done)
		case <-hangup:
			i.reopenAudit()
			loaded = stateOf(source.File)
			i.reload(source)
		case <-tick.C:
			// A file that is being written must not be read half: it has
			// settled when it looks the same twice.
			now := stateOf(source.File)
			if now != loaded && now == last {
				loaded = now
				i.reload(source)
			}
			last = now
		}
	}
}

// askReload has the configuration read anew, and returns when it was, or when
// ctx ends.
func (i *instance) askReload(ctx context.Context) {
	done := make(chan struct{})
	select {
	case i.reloads <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// reopenAudit lets go of a file that log rotation has moved away.
func (i *instance) reopenAudit() {
	if err := i.audit.Reopen(i.current.Load().Audit.To); err != nil {
		i.log.Error("reload: the audit log goes on where it was", "err", err)
	}
}

// fileState changes when a file does.
type fileState struct {
	size     int64
	modified time.Time
}

func stateOf(file string) fileState {
	if file == "" {
		return fileState{}
	}
	info, err := os.Stat(file)
	if err != nil {
		return fileState{}
	}
	return fileState{info.Size(), info.ModTime()}
}

// reload puts the configuration in force, all at once. A wrong one changes
// nothing.
func (i *instance) reload(source config.Source) {
	next, err := config.Load(source)
	if err == nil {
		// The ports stay as they are, so the new clients must fit them.
		err = next.OpenPorts(i.config.Listen)
	}
	var cert *certificate
	if err == nil {
		cert, err = i.openCertificate(next.TLS)
	}
	var solver *captchaai.Client
	if err == nil {
		solver, err = i.openSolver(next.CaptchaAI)
	}
	if err == nil && next.Audit != i.current.Load().Audit {
		err = i.audit.Reopen(next.Audit.To)
	}
	if err == nil {
		err = i.proxy.Reload(next)
	}
	if err == nil {
		err = i.access.SetOperators(next.Auth.Operators)
	}
	i.reloaded(err == nil)
	if err != nil {
		i.discard(cert)
		i.log.Error("reload: the old configuration stays in force")
		if faults, ok := errors.AsType[config.Faults](err); ok {
			i.loaded.Store(&loaded{i.loaded.Load().at, faults})
			for _, f := range faults {
				i.log.Error("reload: fault", "where", f.Where, "line", f.Line, "fault", f.Message, "remedy", f.Remedy)
			}
		} else {
			i.loaded.Store(&loaded{i.loaded.Load().at, config.Faults{{Where: source.File, Message: err.Error()}}})
			i.log.Error("reload: fault", "err", err)
		}
		return
	}
	i.useCertificate(cert)
	i.useSolver(solver, next)
	i.current.Store(next)
	i.loaded.Store(&loaded{at: time.Now()})
	i.declare(next)
	if keys := i.config.NeedsRestart(next); len(keys) > 0 {
		i.log.Warn("reload: some changes wait for a restart", "keys", strings.Join(keys, ", "))
	}
	i.log.Info("reload: the new configuration is in force")
}
