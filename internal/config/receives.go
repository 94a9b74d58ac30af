package config

import "strings"

// Receives says whether any host of the site of that name may get a cookie for
// domain, which is canonical; hostOnly: for domain alone. A host belongs to the
// site with the closest pattern.
func Receives(sites []Site, name, domain string, hostOnly bool) bool {
	domain = strings.TrimSuffix(domain, ".")
	for i := range sites {
		if sites[i].Name != name {
			continue
		}
		for _, p := range sites[i].Patterns {
			switch {
			case p.Matches(domain, p.Port):
				if !taken(sites, name, domain, p) {
					return true
				}
			case !hostOnly && (p.Host == domain || strings.HasSuffix(p.Host, "."+domain)):
				return true
			}
		}
	}
	return false
}

// taken says whether another site than that of the name declares host closer
// than p does.
func taken(sites []Site, name, host string, p Pattern) bool {
	for i := range sites {
		if sites[i].Name == name {
			continue
		}
		for _, other := range sites[i].Patterns {
			if other.Matches(host, p.Port) && other.closer(p) {
				return true
			}
		}
	}
	return false
}

// closer says whether p beats q at a host that both cover: an exact pattern a
// wildcard, and a longer wildcard a shorter one.
func (p Pattern) closer(q Pattern) bool {
	if p.Wildcard != q.Wildcard {
		return q.Wildcard
	}
	return p.Wildcard && len(p.Host) > len(q.Host)
}
