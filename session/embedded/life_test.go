package embedded

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sessionproxy/sessionproxy/session"
)

// swept is how long after its end a record is surely gone from the file.
const swept = sweepEvery + 2*flushEvery

func TestSessionsThatAreOverLeaveTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openAt(t, tempPath(t))
		kept := session.Key{Site: shop.Site, ID: "kept"}
		private := session.Key{Site: shop.Site, ID: shop.ID, Worker: "w"}
		for _, key := range []session.Key{shop, private, kept} {
			apply(t, s, key, cookie("sid", "1"))
		}
		for range 2 {
			time.Sleep(40 * time.Minute)
			if err := s.Renew(t.Context(), kept, hourly); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(swept)
		if onDisk := records(t, s); len(onDisk) != 1 || onDisk[kept] == nil {
			t.Errorf("on disk are %v, want %v", onDisk, kept)
		}
		if got := value(t, s, kept, "sid"); got != "1" {
			t.Errorf("sid=%q in the session in use", got)
		}
	})
}

func TestAFloorHoldsADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openAt(t, tempPath(t))
		apply(t, s, shop, cookie("sid", "1"))
		if err := s.Revoke(t.Context(), shop); err != nil {
			t.Fatal(err)
		}
		apply(t, s, shop, cookie("sid", "2"))

		time.Sleep(time.Hour + swept)
		jar, err := s.Load(t.Context(), shop)
		if err != nil || jar.Floor() == 0 || len(jar.Cookies()) != 0 {
			t.Errorf("after the session that was filled anew: jar %v, error %v, want a floor and no cookies", jar, err)
		}
		if r := records(t, s)[shop]; r == nil || len(r.Jar.Cookies()) != 0 {
			t.Errorf("its cookies are still on disk: %v", r)
		}

		time.Sleep(23*time.Hour - 2*swept)
		if jar, err := s.Load(t.Context(), shop); err != nil || jar.Floor() == 0 {
			t.Errorf("within a day: jar %v, error %v, want a floor", jar, err)
		}
		time.Sleep(3 * swept)
		if _, err := s.Load(t.Context(), shop); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("after a day: error %v, want %v", err, session.ErrNotFound)
		}
		if onDisk := records(t, s); len(onDisk) != 0 {
			t.Errorf("on disk are %v, want none", onDisk)
		}
	})
}

func TestRenewalsAreWrittenTenTimesALifeAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openAt(t, tempPath(t))
		apply(t, s, shop, cookie("sid", "1"))
		before := commits(t, s)
		for range int(time.Hour / time.Second) {
			time.Sleep(time.Second)
			if err := s.Renew(t.Context(), shop, hourly); err != nil {
				t.Fatal(err)
			}
		}
		if n := commits(t, s) - before; n < 5 || n > 10 {
			t.Errorf("%d commits for a request a second over a life, want at most 10", n)
		}
		time.Sleep(flushEvery)
		if left := time.Until(time.UnixMicro(records(t, s)[shop].Ends)); left < hourly.Idle*9/10-2*flushEvery {
			t.Errorf("%v left on disk", left)
		}
	})
}

func TestAShorterRuleCutsALife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openAt(t, tempPath(t))
		apply(t, s, shop, cookie("sid", "1"))
		if err := s.Renew(t.Context(), shop, session.Life{Idle: time.Minute}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := s.Load(t.Context(), shop); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("error %v, want %v", err, session.ErrNotFound)
		}
	})
}

// In a bubble it is the year 2000: the clock was set back since the file was
// written.
func TestVersionsRiseThoughTheClockWasSetBack(t *testing.T) {
	path := tempPath(t)
	s := openAt(t, path)
	before := apply(t, s, shop, cookie("sid", "1")).Version()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		other := session.Key{Site: "other.test", ID: session.DefaultID}
		s := openAt(t, path)
		if after := apply(t, s, other, cookie("sid", "1")).Version(); after < before {
			t.Errorf("version %d after %d", after, before)
		}
	})
}

// records reads the file.
func records(t *testing.T, s *Store) map[session.Key]*session.Record {
	t.Helper()
	all := make(map[session.Key]*session.Record)
	err := s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketJars).ForEach(func(k, v []byte) error {
			key, r, err := decode(k, v)
			all[key] = r
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
