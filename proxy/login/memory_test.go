package login_test

import (
	"testing"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/login/locktest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	locktest.Run(t, func(*testing.T) login.Locks { return new(login.Memory) })
}
