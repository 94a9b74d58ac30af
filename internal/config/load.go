package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// Source is where settings come from. A flag beats the environment, which
// beats the file; a list is replaced as a whole.
type Source struct {
	File      string                      // path of the YAML file; "" none
	LookupEnv func(string) (string, bool) // [os.LookupEnv]
	Flags     Flags
}

// Flags are the settings of the command line, as they were given. What is
// empty was not given.
type Flags struct {
	Listen []string // ADDR[,ask|none][,client=NAME][,session=ID][,from=CIDR][,tls][,plain_auth]
	Admin  string
	Ops    string
	State  string
	Store  string
	Share  []string // hosts: one site of them and their subdomains, in place of a file
}

// Load reads, completes and judges the configuration. Its error is of type
// [Faults] and holds everything that is wrong.
func Load(s Source) (*Config, error) {
	if s.File == "" {
		return load(s, nil)
	}
	text, err := os.ReadFile(s.File)
	if err != nil {
		return nil, Faults{{Where: s.File, Message: fmt.Sprintf("read the configuration: %s", reason(err)), Remedy: missingFile}}
	}
	return load(s, text)
}

func load(s Source, text []byte) (*Config, error) {
	r := newReport()
	src, top := parse(s.File, string(text), r)
	c := new(Config)
	d := &decoder{report: r, src: src, lookup: s.LookupEnv}
	if s.File != "" {
		d.dir = filepath.Dir(s.File)
	}
	d.file(top, c)
	d.override(s, c)
	j := &judge{report: r, c: c}
	j.all()
	if s.File == "" {
		src = nil
	} else if len(c.Sites) == 0 {
		j.noSite(text)
	}
	if faults := r.faults(src); len(faults) > 0 {
		return nil, faults
	}
	return c, nil
}

// restarts are the keys that a running proxy cannot change.
var restarts = []string{"listen", "admin", "ops", "state", "spool", "store", "ca", "auth.keys"}

// NeedsRestart returns the keys in which next differs from c and which take
// effect at a restart only.
func (c *Config) NeedsRestart(next *Config) []string {
	return slices.DeleteFunc(slices.Clone(restarts), func(path string) bool {
		was, will := reflect.ValueOf(c).Elem(), reflect.ValueOf(next).Elem()
		for name := range strings.SplitSeq(path, ".") {
			was, will = fieldOf(was, name), fieldOf(will, name)
		}
		return reflect.DeepEqual(was.Interface(), will.Interface())
	})
}
