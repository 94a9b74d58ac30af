package password

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"
)

const (
	// Of "password", from the tests of argon2's reference implementation.
	byArgon2   = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	salt8, key = "c29tZXNhbHQ", "DFoeomwj4qC2/HiIGJLDiyMDxSj9sX7JZNtDyBUmbSE"
)

func parse(t *testing.T, text string) Secret {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func bcrypted(t *testing.T, password string, cost int) string {
	t.Helper()
	b, err := bcrypt.GenerateFromPassword([]byte(password), cost)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestMatches(t *testing.T) {
	t.Parallel()
	hash := bcrypted(t, "s3cret", bcrypt.MinCost)
	for _, tt := range []struct {
		name, written, given string
		want                 bool
	}{
		{"the password itself", "s3cret", "s3cret", true},
		{"another", "s3cret", "S3cret", false},
		{"none", "s3cret", "", false},
		{"a password with dollars", "$3cret$", "$3cret$", true},
		{"an argon2id hash of it", New("s3cret"), "s3cret", true},
		{"an argon2id hash of another", New("s3cret"), "s3creT", false},
		{"another program's argon2id hash", byArgon2, "password", true},
		{"the hash is not the password", byArgon2, byArgon2, false},
		{"a bcrypt hash of it", hash, "s3cret", true},
		{"as PHP and Apache write it", strings.Replace(hash, "$2a$", "$2y$", 1), "s3cret", true},
		{"as OpenBSD writes it", strings.Replace(hash, "$2a$", "$2b$", 1), "s3cret", true},
		{"a bcrypt hash of another", hash, "secret", false},
		{"the bcrypt hash is not the password", hash, hash, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := parse(t, tt.written).Matches(tt.given); got != tt.want {
				t.Errorf("%t, want %t", got, tt.want)
			}
		})
	}
	if (Secret{}).Matches("") {
		t.Error("the zero Secret matches")
	}
}

// What other programs write is read. Each hash was made by the program that its
// row names, with the cheapest settings that it takes.
func TestHashesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ program, written, password string }{
		{"argon2 -id -e", "$argon2id$v=19$m=4096,t=3,p=1$c29tZXNhbHRzYWx0$aw3frmapjHWtB5e8gPVcX90BTkYlxL55D//WwcnS+Y8", "s3cret"},
		{"argon2 -id -e -p 4 -l 24", "$argon2id$v=19$m=4096,t=2,p=4$c29tZXNhbHRzYWx0$OTALDS7CZVYwR0RSHthrVs+s/qu8UUNT", "s3cret"},
		{"Python's argon2-cffi", "$argon2id$v=19$m=8192,t=2,p=8$je6JWjFWvdD+Ko1O8VeQUQ$PCCYwfCy1tz+irg6Q7tiOw", "s3cret"},
		{"Python's passlib.hash.argon2", "$argon2id$v=19$m=8192,t=2,p=2$Yuy9d671PmeM0RoD4Dyn1A$HvccCuOkQXT/ym9zEDyPSA", "s3cret"},
		{"Python's passlib.hash.bcrypt", "$2b$04$Lps6imVBau3yqAGk7UANHuBeLBIV92YpQOe/pyCaNvUUoTkFOMLrK", "s3cret"},
		{"Python's bcrypt", "$2b$04$axDN3wS6OR35FRLCaVqctOoBdMU9BMdqu60qgLvNtYPHWLlB1gpE2", "s3cret"},
		{"PHP's PASSWORD_ARGON2ID", "$argon2id$v=19$m=8192,t=2,p=1$ZU1HNUNXdW1pSzhPazBUYw$gCz9cute9XnttcT8hPFDGIhV1yolkQU6pwwHKNWg4l4", "s3cret"},
		{"PHP's PASSWORD_BCRYPT", "$2y$04$y0SXQHoKAKW.QUSycuYB6eMFCqklQNfpjJwHvJ6cqCPLoj.Wj7NTS", "s3cret"},
		{"htpasswd -B", "$2y$05$c8DYear94Y.wFMWhMD2XbORtsxh1Ut7qsuYPnksQ19JYYIpfIP6Om", "s3cret"},
		{"htpasswd -B, beyond ASCII", "$2y$04$nVhloAJ9g9buDa6nTPC4XesxJ2VtU6cvQJPGukwZs2Ont1bye0ejO", "s3crét"},
		{"htpasswd -B, beyond bcrypt's 72 bytes", "$2y$04$vMf6pbCfFao2b0s0OIDCAODjC8fOJkaVMPTz.7BBZ.bypIx9fZOzW", strings.Repeat("x", 80)},
	} {
		t.Run(tt.program, func(t *testing.T) {
			t.Parallel()
			s := parse(t, tt.written)
			if !s.Slow() || !s.Matches(tt.password) || s.Matches("not "+tt.password) || s.Matches(tt.written) {
				t.Errorf("slow %t, right %t, wrong %t, the hash itself %t", s.Slow(), s.Matches(tt.password), s.Matches("not "+tt.password), s.Matches(tt.written))
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	argon := func(params string) string { return "$argon2id$v=19$" + params + "$" + salt8 + "$" + key }
	for _, tt := range []struct{ name, text, want string }{
		{"a hash cut off", "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ", "$SALT$KEY"},
		{"an old version", "$argon2id$v=16$m=65536,t=3,p=4$" + salt8 + "$" + key, "v=19"},
		{"an order of its own", argon("t=3,m=65536,p=4"), "in this order"},
		{"a memory of nothing", argon("m=0,t=3,p=4"), "above 0"},
		{"a memory that would end the process", argon("m=4294967295,t=1,p=1"), "too long"},
		{"passes that never end", argon("m=65536,t=4294967295,p=1"), "too long"},
		{"a thousand lanes", argon("m=65536,t=1,p=1000"), "too long"},
		{"256 lanes, which are 0 in a byte", argon("m=65536,t=1,p=256"), "too long"},
		{"too little memory for its lanes", argon("m=8,t=1,p=4"), "8 times"},
		{"a salt that is no base64", "$argon2id$v=19$m=65536,t=3,p=4$c29tZXN_bHQ$" + key, "base64"},
		{"an empty key", "$argon2id$v=19$m=65536,t=3,p=4$" + salt8 + "$", "16 to 64"},
		{"argon2i", "$argon2i$v=19$m=65536,t=3,p=4$" + salt8 + "$" + key, "argon2id or bcrypt"},
		{"crypt's SHA-512", "$6$salt$hash", "argon2id or bcrypt"},
		{"bcrypt's broken one", "$2x$10$abcdefghijklmnopqrstuu.abcdefghijklmnopqrstuvwxyz01234", "argon2id or bcrypt"},
		{"passlib's bcrypt over SHA-256", "$bcrypt-sha256$v=2,t=2b,r=4$/HR2ZXtewmMZKati0Z7P9e$hF7GltZABmC0PuTwChpMCsW/4qIJody", "argon2id or bcrypt"},
		{"passlib's PBKDF2", "$pbkdf2-sha256$29000$N2YMIWQsBWBMae09x1jrPQ$1t8iyB2A.WF/Z5JZv.lfCIhXXN33N23OSgQYThBYRfk", "argon2id or bcrypt"},
		{"phpass", "$P$BGpVx2.5kF1Nq6gNcfy7X6lqk7ppE9.", "argon2id or bcrypt"},
		{"htpasswd -s", "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "argon2id or bcrypt"},
		{"LDAP's", "{SSHA}W6ph5Mm5Pz8GgiULbPgzG37mj9gXXXX=", "argon2id or bcrypt"},
		{"a bcrypt hash cut off", "$2b$10$abcdefghijklmnopqrstuv", "60 characters"},
		{"a bcrypt cost that takes hours", "$2b$31$" + strings.Repeat("a", 53), "too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(byArgon2)
	f.Add("$2b$10$" + strings.Repeat("a", 53))
	f.Add("s3cret")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err == nil && s.Slow() == (scheme(text) == "") {
			t.Errorf("%q: slow %t", text, s.Slow())
		}
	})
}

var here = netip.MustParseAddr("192.0.2.1")

func TestARightPasswordIsHashedOnce(t *testing.T) {
	t.Parallel()
	v, s := NewVerifier(), parse(t, bcrypted(t, "s3cret", 8))
	begun := time.Now()
	if ok, err := v.Check(here, "ana", "s3cret", s, true); !ok || err != nil {
		t.Fatal(ok, err)
	}
	once := time.Since(begun)
	begun = time.Now()
	for range 100 {
		if ok, _ := v.Check(here, "ana", "s3cret", s, true); !ok {
			t.Fatal("refused the second time")
		}
	}
	if took := time.Since(begun); took > 20*once {
		t.Errorf("100 more took %v, where one hash takes %v", took, once)
	}
	for what, ok := range map[string]bool{
		"another's name":     check(v, "eva", "s3cret", s, false),
		"another password":   check(v, "ana", "secret", s, true),
		"the secret changed": check(v, "ana", "s3cret", parse(t, "other"), true),
	} {
		if ok {
			t.Errorf("%s passes", what)
		}
	}
}

func check(v *Verifier, name, password string, s Secret, known bool) bool {
	ok, _ := v.Check(here, name, password, s, known)
	return ok
}

// An unknown name costs what a wrong password does: it is hashed, too.
func TestAnUnknownNameIsHashedAgainstAnothers(t *testing.T) {
	t.Parallel()
	v := NewVerifier()
	of := []Secret{parse(t, "plain"), parse(t, bcrypted(t, "s3cret", 4))}
	kinds := map[bool]int{}
	for i := range 64 {
		name := fmt.Sprint("stranger", i)
		d := v.Decoy(name, of)
		if !d.Same(v.Decoy(name, of)) {
			t.Fatal("one name has two decoys")
		}
		kinds[d.Slow()]++
	}
	if kinds[true] == 0 || kinds[false] == 0 {
		t.Errorf("decoys are of one kind only: %v", kinds)
	}
	if ok, _ := v.Check(here, "stranger", "s3cret", of[1], false); ok {
		t.Error("an unknown name passes with its decoy's password")
	}
}

func TestGuessingIsSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v, s := NewVerifier(), parse(t, "s3cret")
		var tried, refused atomic.Int64
		var wg sync.WaitGroup
		begun := time.Now()
		for i := range 1000 { // at once
			wg.Go(func() {
				if _, err := v.Check(here, "ana", fmt.Sprint(i), s, true); errors.Is(err, ErrTooMany) {
					refused.Add(1)
				} else {
					tried.Add(1)
				}
			})
		}
		wg.Wait()
		if n := tried.Load(); n > burst+3 || refused.Load()+n != 1000 {
			t.Errorf("%d of 1000 guesses were looked at in %v", n, time.Since(begun))
		}
		begun = time.Now()
		for i := range 10 { // one by one
			if _, err := v.Check(here, "ana", fmt.Sprint("x", i), s, true); err != nil {
				time.Sleep(time.Second)
			}
		}
		if took := time.Since(begun); took < 9*time.Second {
			t.Errorf("10 more guesses took %v", took)
		}
		if ok, err := v.Check(netip.MustParseAddr("192.0.2.2"), "ana", "s3cret", s, true); !ok || err != nil {
			t.Errorf("another address: %t, %v", ok, err)
		}
		if ok, err := v.Check(here, "ana", "s3cret", s, true); !ok || err != nil {
			t.Errorf("a right password that is known, from the guesser's address: %t, %v", ok, err)
		}
		time.Sleep(time.Minute)
		for i := range burst {
			if _, err := v.Check(here, "ana", fmt.Sprint("y", i), s, true); err != nil {
				t.Fatalf("a minute later, guess %d: %v", i, err)
			}
		}
	})
}

// Right passwords cost an address nothing, however many there are.
func TestRightPasswordsAreNoGuesses(t *testing.T) {
	t.Parallel()
	v := NewVerifier()
	for i := range 10 * burst {
		p := fmt.Sprint("s3cret", i)
		if ok, err := v.Check(here, "ana", p, parse(t, p), true); !ok || err != nil {
			t.Fatal(i, ok, err)
		}
	}
}

func TestOneHashACore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v, s := NewVerifier(), parse(t, bcrypted(t, "s3cret", 4))
		for range runtime.GOMAXPROCS(0) {
			v.cores <- struct{}{} // all are at work
		}
		if _, err := v.Check(here, "ana", "s3cret", s, true); !errors.Is(err, ErrBusy) {
			t.Errorf("%v, want %v", err, ErrBusy)
		}
		<-v.cores
		if ok, err := v.Check(here, "ana", "s3cret", s, true); !ok || err != nil {
			t.Errorf("with a core free: %t, %v", ok, err)
		}
	})
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	t.Parallel()
	v := NewVerifier()
	for i := range 3 * maxRight {
		p := fmt.Sprint(i)
		v.remember(v.sum([]byte(p), "", ""))
	}
	if n := len(v.new) + len(v.old); n > 2*maxRight {
		t.Errorf("%d passwords are remembered", n)
	}
	g := guesses{all: map[netip.Prefix]*guesser{}}
	for i := range maxGuessers + 100 {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		if _, err := g.begin(a); err != nil {
			t.Fatal(err)
		}
	}
	if len(g.all) > maxGuessers {
		t.Errorf("%d addresses are remembered", len(g.all))
	}
	if network(netip.MustParseAddr("2001:db8::1")) != network(netip.MustParseAddr("2001:db8::2")) {
		t.Error("two addresses of one IPv6 network count apart")
	}
}
