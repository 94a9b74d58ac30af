package session

// Policy is a site's rule for names and merging. Make it with NewPolicy.
type Policy struct {
	ClientWins bool // precedence: client
	// unexported: compiled globs
}

// NewPolicy compiles a policy: share and private are globs of cookie names
// ("*" any run, "?" one byte); private adds to the built-in list. A name that
// is private, or that no share glob matches, never enters a shared jar and is
// never sent from one.
func NewPolicy(share, private []string, clientWins bool) *Policy { panic("not built") }

// Shared says whether cookies of this name belong to the session rather than
// to one worker or nobody.
func (p *Policy) Shared(name string) bool { panic("not built") }

// Private says whether the name is one worker's own.
func (p *Policy) Private(name string) bool { panic("not built") }
