package captcha_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f func(*testing.T, storetest.World)) {
		synctest.Test(t, func(t *testing.T) {
			m := captcha.NewMemory()
			f(t, storetest.World{A: m, B: m, Age: time.Sleep})
		})
	})
}
