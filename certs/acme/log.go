package acme

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap/zapcore"
)

// core writes what certmagic logs to the proxy's log. Its steps are of use to
// who looks for a fault and to nobody else, so they are debug there.
type core struct {
	log    *slog.Logger
	fields []zapcore.Field
}

func level(l zapcore.Level) slog.Level {
	switch {
	case l < zapcore.WarnLevel:
		return slog.LevelDebug
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelError
}

// Enabled is of [zapcore.Core], as all that follows.
func (c core) Enabled(l zapcore.Level) bool { return c.log.Enabled(context.Background(), level(l)) }

// With adds fields to all entries.
func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{c.log, slices.Concat(c.fields, fields)}
}

// Check adds c to those that write an entry.
func (c core) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

// Write writes an entry.
func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	said := zapcore.NewMapObjectEncoder()
	for _, f := range slices.Concat(c.fields, fields) {
		f.AddTo(said)
	}
	var attrs []slog.Attr
	for _, key := range slices.Sorted(maps.Keys(said.Fields)) {
		attrs = append(attrs, slog.Any(key, said.Fields[key]))
	}
	c.log.LogAttrs(context.Background(), level(e.Level), "acme: "+e.Message, attrs...)
	return nil
}

// Sync does nothing: nothing is kept back.
func (c core) Sync() error { return nil }
