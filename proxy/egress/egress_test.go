package egress

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
)

func TestKindOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, addr string
		want       Kind
	}{
		{"a public address", "93.184.216.34", Public},
		{"a public IPv6 address", "2606:2800:220:1::1", Public},
		{"the end of the block below 10/8", "9.255.255.255", Public},
		{"the block above 172.16/12", "172.32.0.0", Public},
		{"loopback", "127.0.0.1", Loopback},
		{"all of loopback", "127.255.255.254", Loopback},
		{"IPv6 loopback", "::1", Loopback},
		{"the unspecified address, which the kernel takes for loopback", "0.0.0.0", Loopback},
		{"the network of the unspecified address", "0.1.2.3", Loopback},
		{"IPv6 unspecified", "::", Loopback},
		{"loopback mapped to IPv6", "::ffff:127.0.0.1", Loopback},
		{"loopback in compatible IPv6", "::127.0.0.1", Loopback},
		{"loopback by NAT64", "64:ff9b::7f00:1", Loopback},
		{"loopback by 6to4", "2002:7f00:1::", Loopback},
		{"loopback by Teredo", "2001:0:4136:e378:8000:63bf:80ff:fffe", Loopback},
		{"loopback by ISATAP", "2606:2800::5efe:7f00:1", Loopback},
		{"loopback by ISATAP, its universal bit set", "2606:2800::200:5efe:7f00:1", Loopback},
		{"loopback by stateless translation", "::ffff:0:127.0.0.1", Loopback},
		{"a private network", "192.168.1.1", Private},
		{"another", "10.0.0.1", Private},
		{"the last of 172.16/12", "172.31.255.255", Private},
		{"a carrier's", "100.64.0.1", Private},
		{"a VPN's fake address", "198.18.0.5", Private},
		{"IPv6 unique local", "fd12:3456::1", Private},
		{"IPv6 site-local", "fec0::1", Private},
		{"private by NAT64", "64:ff9b::a00:1", Private},
		{"NAT64 of one's own", "64:ff9b:1::5db8:d822", Private},
		{"public by NAT64", "64:ff9b::5db8:d822", Public},
		{"link-local", "169.254.1.1", LinkLocal},
		{"IPv6 link-local", "fe80::1", LinkLocal},
		{"IPv6 link-local with a zone", "fe80::1%eth0", LinkLocal},
		{"the metadata of most clouds", "169.254.169.254", Metadata},
		{"the same, mapped", "::ffff:169.254.169.254", Metadata},
		{"the same, mapped, with a zone", "::ffff:169.254.169.254%1", Metadata},
		{"the same, by NAT64", "64:ff9b::a9fe:a9fe", Metadata},
		{"AWS's by IPv6", "fd00:ec2::254", Metadata},
		{"Alibaba's, which is a carrier's address too", "100.100.100.200", Metadata},
		{"Azure's, which is public", "168.63.129.16", Metadata},
		{"multicast", "224.0.0.1", Reserved},
		{"broadcast", "255.255.255.255", Reserved},
		{"documentation", "203.0.113.1", Reserved},
		{"IPv6 multicast", "ff02::1", Reserved},
		{"IPv6 documentation", "2001:db8::1", Reserved},
		{"IPv6 that is not given out", "4000::1", Reserved},
		{"discard-only", "100::1", Reserved},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := KindOf(netip.MustParseAddr(tt.addr)); got != tt.want {
				t.Errorf("%s is %s, want %s", tt.addr, got, tt.want)
			}
		})
	}
}

func guard(t *testing.T, mode config.EgressMode, allow, deny string) *Guard {
	t.Helper()
	parse := func(list string) (all []config.Destination) {
		for entry := range strings.FieldsSeq(list) {
			d, err := config.ParseDestination(entry)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, d)
		}
		return all
	}
	return New(config.Egress{Mode: mode, Allowed: parse(allow), Denied: parse(deny)})
}

func TestAddr(t *testing.T) {
	t.Parallel()
	const declared, undeclared = true, false
	for _, tt := range []struct {
		name        string
		mode        config.EgressMode
		allow, deny string
		host, addr  string
		declared    bool
		want        string // kind; "" it may be reached
	}{
		{"anybody reaches a public address", "enforce", "", "", "a.test", "93.184.216.34", undeclared, ""},
		{"an undeclared host never loopback", "enforce", "", "", "a.test", "127.0.0.1", undeclared, "loopback"},
		{"an undeclared host no private network", "enforce", "", "", "a.test", "10.1.1.1", undeclared, "private"},
		{"an undeclared host no reserved address", "enforce", "", "", "a.test", "224.0.0.1", undeclared, "reserved"},
		{"rules that nobody set are enforced", "", "", "", "a.test", "127.0.0.1", undeclared, "loopback"},
		{"a declared site may be private", "enforce", "", "", "shop.test", "10.1.1.1", declared, ""},
		{"a declared site may be on loopback", "enforce", "", "", "shop.test", "::1", declared, ""},
		{"a declared site is no metadata", "enforce", "", "", "shop.test", "169.254.169.254", declared, "metadata"},
		{"a declared site is not link-local", "enforce", "", "", "shop.test", "fe80::1%lo", declared, "link_local"},
		{"an allowed network", "enforce", "10.1.0.0/16", "", "a.test", "10.1.1.1", undeclared, ""},
		{"an allowed network, mapped", "enforce", "10.1.0.0/16", "", "a.test", "::ffff:10.1.1.1", undeclared, ""},
		{"beside an allowed network", "enforce", "10.1.0.0/16", "", "a.test", "10.2.1.1", undeclared, "private"},
		{"an allowed address lifts even metadata", "enforce", "169.254.169.254", "", "a.test", "169.254.169.254", undeclared, ""},
		{"an allowed host", "enforce", "*.corp.test", "", "wiki.corp.test", "10.1.1.1", undeclared, ""},
		{"an allowed host with a final dot", "enforce", "*.corp.test", "", "wiki.corp.test.", "10.1.1.1", undeclared, ""},
		{"an allowed host that turns to metadata", "enforce", "*.corp.test", "", "wiki.corp.test", "169.254.169.254", undeclared, "metadata"},
		{"a host that only ends like an allowed one", "enforce", "*.corp.test", "", "evilcorp.test", "10.1.1.1", undeclared, "private"},
		{"a denied host", "enforce", "", "*.evil.test", "x.evil.test", "93.184.216.34", undeclared, "denied"},
		{"a denied network", "enforce", "", "93.184.0.0/16", "a.test", "93.184.216.34", undeclared, "denied"},
		{"a denied network by NAT64", "enforce", "", "93.184.0.0/16", "a.test", "64:ff9b::5db8:d822", undeclared, "denied"},
		{"denied beats allowed", "enforce", "10.0.0.0/8", "10.1.0.0/16", "a.test", "10.1.1.1", undeclared, "denied"},
		{"denied beats declared", "enforce", "", "10.1.0.0/16", "shop.test", "10.1.1.1", declared, "denied"},
		{"open lets everybody go anywhere", "open", "", "", "a.test", "169.254.169.254", undeclared, ""},
		{"open, but not where the operator said no", "open", "", "10.0.0.0/8", "a.test", "10.1.1.1", undeclared, "denied"},
		{"report judges as enforce does", "report", "", "", "a.test", "127.0.0.1", undeclared, "loopback"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := ""
			ref := guard(t, tt.mode, tt.allow, tt.deny).Addr(tt.host, netip.MustParseAddr(tt.addr), tt.declared)
			if ref != nil {
				got = ref.Kind
				if strings.Contains(ref.Reason, tt.addr) || !strings.Contains(ref.Reason, "egress.") {
					t.Errorf("the client reads %q: it is to name the setting, not the address", ref.Reason)
				}
			}
			if got != tt.want {
				t.Errorf("%s at %s: %q, want %q", tt.host, tt.addr, got, tt.want)
			}
		})
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, host, want string }{
		{"a public name", "example.com", ""},
		{"an address", "93.184.216.34", ""},
		{"loopback", "127.0.0.1", "loopback"},
		{"metadata", "169.254.169.254", "metadata"},
		{"mapped metadata", "::ffff:169.254.169.254", "metadata"},
		{"localhost", "localhost", "loopback"},
		{"below localhost", "a.localhost", "loopback"},
		{"a cloud's name of its metadata", "metadata.google.internal", "private"},
		{"one label, which search domains complete", "intranet", "private"},
		{"multicast DNS", "printer.local.", "private"},
		{"a home's network", "nas.home.arpa", "private"},
		{"an allowed name", "wiki.corp.internal", ""},
		{"a denied name", "evil.test", "denied"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := guard(t, config.EgressEnforce, "*.corp.internal", "evil.test")
			got := ""
			if ref := g.Name(tt.host, false); ref != nil {
				got = ref.Kind
			}
			if got != tt.want {
				t.Errorf("%s: %q, want %q", tt.host, got, tt.want)
			}
		})
	}
	if ref := guard(t, config.EgressEnforce, "", "").Name("intranet", true); ref != nil {
		t.Errorf("a declared name with a local meaning is refused: %v", ref)
	}
}

// FuzzKindOf: no address that carries a special one is public.
func FuzzKindOf(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add([]byte{169, 254, 169, 254})
	f.Add([]byte{8, 8, 8, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 4 {
			return
		}
		v4 := netip.AddrFrom4([4]byte(b))
		want := KindOf(v4)
		for _, form := range []string{"::ffff:0:0", "64:ff9b::"} {
			whole := netip.MustParseAddr(form).As16()
			copy(whole[12:], b[:4])
			if got := KindOf(netip.AddrFrom16(whole)); got != want {
				t.Errorf("%s is %s, and %s within %s is %s", v4, want, v4, form, got)
			}
		}
	})
}
