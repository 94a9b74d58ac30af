package access

import (
	"testing"
	"testing/synctest"
	"time"
)

// Tokens end by the clock that people set, so what denies them must outlast
// whatever that does.
func TestADenialOutlastsClocksThatAreSet(t *testing.T) {
	for _, tt := range []struct {
		name    string
		waits   time.Duration
		ahead   time.Duration // the clock, against its own course
		dropped bool
	}{
		{"while the token lives", time.Minute, 0, false},
		{"a clock that is an hour ahead for a while", time.Minute, time.Hour, false},
		{"a clock that went back by an hour: the token lives longer", 20 * time.Minute, -time.Hour, false},
		{"after the token's end", 20 * time.Minute, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &Authority{now: time.Now, denied: denied{until: map[string]denial{}}}
				a.denied.coherent.Store(true)
				a.addDenied("device", a.now().Add(15*time.Minute))
				time.Sleep(tt.waits)
				a.denied.drop(time.Now().Add(tt.ahead))
				if got := !a.isDenied(t.Context(), "device.token"); got != tt.dropped {
					t.Errorf("dropped: %t, want %t", got, tt.dropped)
				}
			})
		})
	}
}
