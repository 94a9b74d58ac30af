package upstream_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/proxy/upstream/ledgertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(*testing.T) (a, b upstream.Ledger) {
		m := upstream.NewMemory(ledgertest.LeaseTime)
		return m, m
	})
}
