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
		r.AddAttrs(slog.String(name, fmt.Sprint(value)))
	}
	return len(line), a.records.Handle(context.Background(), r)
}
