package session

import (
	"cmp"
	"slices"
)

// evict removes what is over the limits: RFC 6265bis section 5.7. Expired
// cookies are gone already. Within a site insecure cookies go before Secure
// ones, so that plain http cannot push a login out; then the least recently
// used.
func (j *Jar) evict() {
	if len(j.cookies) <= maxPerSite {
		return
	}
	sites := make(map[string][]int)
	for i := range j.cookies {
		domain := j.cookies[i].Domain
		site := cmp.Or(registrable(domain), domain)
		sites[site] = append(sites[site], i)
	}
	gone := make(map[int]bool)
	for _, cookies := range sites {
		slices.SortFunc(cookies, j.byUse(true))
		for _, i := range cookies[:max(0, len(cookies)-maxPerSite)] {
			gone[i] = true
		}
	}
	j.remove(gone)

	if len(j.cookies) > maxCookies {
		all := make([]int, len(j.cookies))
		for i := range all {
			all[i] = i
		}
		slices.SortFunc(all, j.byUse(false))
		clear(gone)
		for _, i := range all[:len(all)-maxCookies] {
			gone[i] = true
		}
		j.remove(gone)
	}
}

// byUse compares cookies by their index: least recently used first.
func (j *Jar) byUse(insecureFirst bool) func(a, b int) int {
	return func(a, b int) int {
		x, y := &j.cookies[a], &j.cookies[b]
		if insecureFirst && x.Secure != y.Secure {
			if y.Secure {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.Version, y.Version)
	}
}

func (j *Jar) remove(gone map[int]bool) {
	kept := j.cookies[:0]
	for i := range j.cookies {
		if !gone[i] {
			kept = append(kept, j.cookies[i])
		}
	}
	j.cookies = kept
}

// Fit says of each of the cookies, were they set in this order, whether an
// empty jar had room for it: whoever brings very many need not have a jar sort
// them out one by one.
func Fit(cookies []Cookie) []bool {
	j := Jar{cookies: slices.Clone(cookies)}
	for i := range j.cookies {
		j.cookies[i].Version = int64(i) // the use that evict goes by
	}
	j.evict()
	fits := make([]bool, len(cookies))
	for i := range j.cookies {
		fits[j.cookies[i].Version] = true
	}
	return fits
}
