package redisstore

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

func TestMain(m *testing.M) {
	conn.LogTo(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}
