package world

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"
)

// auditLines takes an audit log's lines as records: the message is the action.
type auditLines struct{ records *Records }

// Write takes one line.
func (a auditLines) Write(line []byte) (int, error) {
	var fields map[string]any
	if err := json.Unmarshal(bytes.TrimSpace(line), &fields); err != nil {
		return 0, fmt.Errorf("%q is no line of the audit log: %w", line, err)
	}
	r := slog.NewRecord(time.Now(), slog.LevelInfo, fmt.Sprint(fields["action"]), 0)
	for name, value := range fields {
		r.AddAttrs(attr(name, value))
	}
	return len(line), a.records.Handle(context.Background(), r)
}

// attr is one field; one that has parts is a group.
func attr(name string, value any) slog.Attr {
	parts, ok := value.(map[string]any)
	if !ok {
		return slog.String(name, fmt.Sprint(value))
	}
	var group []slog.Attr
	for name, value := range parts {
		group = append(group, attr(name, value))
	}
	return slog.GroupAttrs(name, group...)
}
