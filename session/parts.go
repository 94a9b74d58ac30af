package session

import (
	"fmt"
	"slices"
	"time"
)

// Parts are what a jar is made of, for stores that keep each part for itself.
type Parts struct {
	Version, Floor int64
	Created        time.Time
	Cookies        []Cookie // in any order
	Marks          []Mark   // oldest first
	Revoked        []string // in any order
}

// Parts returns j's parts. The caller must not change them.
func (j *Jar) Parts() Parts {
	return Parts{j.version, j.floor, j.created, j.cookies, j.marks, j.revoked}
}

// NewJar makes the jar of these parts, and keeps them. A cookie that no
// Set-Cookie line could have stored is an error, a [Refusal] in its chain.
func NewJar(p Parts) (*Jar, error) {
	for i := range p.Cookies {
		if err := p.Cookies[i].Check(); err != nil {
			return nil, fmt.Errorf("make jar: %w", err)
		}
	}
	slices.SortStableFunc(p.Cookies, func(a, b Cookie) int { return compareOrder(&a, &b) })
	slices.Sort(p.Revoked)
	j := &Jar{
		version: p.Version, floor: p.Floor, created: p.Created,
		cookies: p.Cookies, marks: p.Marks, revoked: p.Revoked,
	}
	j.prepare()
	return j, nil
}
