package main

import (
	"slices"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/trust"
)

// Without a flag, what is not there is named and is no failure; by its flag it
// is one.
func TestStoresThatAreNotThere(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("JAVA_HOME", "")
	found, absent, err := stores{}.find(t.Context(), true)
	if err != nil || len(found) != 1 || found[0] != (trust.System{}) {
		t.Errorf("found %v, %v; want the system's alone", found, err)
	}
	if want := []string{"a database of Chromium or Firefox; install --nss makes one", "the store of a Java; JAVA_HOME names it"}; !slices.Equal(absent, want) {
		t.Errorf("absent: %q, want %q", absent, want)
	}
	if _, absent, err := (stores{java: true}).find(t.Context(), true); err == nil || len(absent) > 0 {
		t.Errorf("asked for Java: absent %q, error %v; want an error alone", absent, err)
	}
}
