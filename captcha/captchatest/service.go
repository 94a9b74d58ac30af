package captchatest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options are how a service behaves. Only Key is needed.
type Options struct {
	Key      string // 32 characters
	Threads  int    // of the plan; 0: an account without any
	Verifier *Verifier
	// Outcome says what becomes of a task; default: solved after 10 seconds.
	Outcome func(Task) Outcome
	Switches
}

// Switches choose where the vendor's documents contradict each other, or are
// silent. The zero values are the official reference's.
type Switches struct {
	NoSlot         bool          // busy is ERROR_NO_SLOT_AVAILABLE, not ERROR_ZERO_BALANCE
	PlainByDefault bool          // without json= the reply is plain, not JSON
	AlwaysPlain    bool          // json=1 is not understood
	CardProxy      bool          // a proxy is type:host:port:user:pass, not user:pass@ip:port
	Cloudflare     Shape         // of a cloudflare_challenge: Text, Object, or Pairs in plain form
	GeeTest        Shape         // of a GeeTest answer
	GeeTestV4      bool          // is solved
	OldImageLimits bool          // 100 bytes to 100 kB, not 1 KiB to 1 MiB
	HCaptcha       bool          // is solved
	TwoCaptcha     bool          // what only the protocol's origin has: get2, ids=, header_acao, numbered bans
	BanTime        time.Duration // after many bad keys; 0: 5 minutes
}

// Shape is a form of an answer that has several parts.
type Shape int

// The values of Shape.
const (
	Object Shape = iota // a JSON object
	Text                // a JSON object in a string; of a Cloudflare challenge the cookie, and the User-Agent beside it
	Pairs               // name:value,name:value
)

// Task is what the service was asked to solve.
type Task struct {
	ID      string
	Method  string
	Params  url.Values // without the key
	Image   []byte
	Created time.Time
}

// Outcome is what becomes of a task.
type Outcome struct {
	After time.Duration // until it is solved or given up; [Never]
	Code  string        // of the error, where it is given up
	Token string        // "": the service makes one
}

// Never is the time of a task that neither ends.
const Never = 24 * time.Hour

type task struct {
	Task
	outcome Outcome
	polls   []time.Time
	token   string
}

func (t *task) over(now time.Time) bool { return now.Sub(t.Created) >= t.outcome.After }

// Call is one request that the service saw.
type Call struct {
	At     time.Time
	Path   string
	Method string
	Params url.Values // without the key
}

// Service is an account's service. It is safe for concurrent use.
type Service struct {
	o Options

	mu      sync.Mutex
	threads int
	foreign int // threads that others of the account hold
	tasks   map[string]*task
	order   []*task
	calls   []Call
	faults  map[string][]Fault
	refused int // submissions that found no thread
	most    int // tasks of ours that were open at once
	bad     map[string]int
	banned  map[string]time.Time
	recent  []time.Time // submissions of the last seconds
}

// New returns a service. It panics where the key has not 32 characters, since
// nobody could use it.
func New(o Options) *Service {
	if len(o.Key) != 32 {
		panic("captchatest: a key has 32 characters")
	}
	if o.Outcome == nil {
		o.Outcome = func(Task) Outcome { return Outcome{After: 10 * time.Second} }
	}
	if o.BanTime == 0 {
		o.BanTime = 5 * time.Minute
	}
	return &Service{o: o, threads: o.Threads, tasks: map[string]*task{}, faults: map[string][]Fault{}, bad: map[string]int{}, banned: map[string]time.Time{}}
}

// ServeHTTP serves /in.php, /res.php and /solve.php.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in, readable := read(r)
	s.mu.Lock()
	s.calls = append(s.calls, Call{time.Now(), r.URL.Path, r.Method, in.params})
	fault, faulty := s.nextFault(r.URL.Path)
	s.mu.Unlock()
	if faulty && !fault.Taken {
		fault.write(w, r)
		return
	}
	a := s.answer(r, in, readable)
	if faulty {
		fault.write(w, r)
		return
	}
	s.write(w, in, a)
}

// answer is what a request gets.
type answer struct {
	value any    // of "request"
	plain string // the same in the plain form; "" where it is the value
	bare  bool   // the plain form has no OK|
	code  string
	more  map[string]any // beside "request"
	body  map[string]any // in place of status and request
}

func failed(code string) answer { return answer{code: code} }

func (s *Service) answer(r *http.Request, in input, readable bool) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, from := time.Now(), addressOf(r)
	if until, ok := s.banned[from]; ok && now.Before(until) {
		return failed("IP_BANNED")
	}
	delete(s.banned, from)
	if !readable {
		return failed("ERROR_BAD_PARAMETERS")
	}
	if code := s.judgeKey(in.key); code != "" {
		if s.bad[from]++; s.bad[from] >= maxBadKeys {
			s.bad[from], s.banned[from] = 0, now.Add(s.o.BanTime)
		}
		return failed(code)
	}
	switch r.URL.Path {
	case "/in.php":
		return s.submit(now, from, in)
	case "/solve.php":
		return s.solveAtOnce(now, from, in)
	case "/res.php":
		return s.result(now, in)
	}
	return failed("ERROR_BAD_PARAMETERS")
}

// maxBadKeys is how many bad keys an address may send. No document says.
const maxBadKeys = 5

func (s *Service) judgeKey(key string) string {
	switch {
	case len(key) != 32:
		return "ERROR_WRONG_USER_KEY"
	case key != s.o.Key, s.threads == 0: // the official reference gives both one code
		return "ERROR_KEY_DOES_NOT_EXIST"
	}
	return ""
}

func (s *Service) write(w http.ResponseWriter, in input, a answer) {
	if s.o.TwoCaptcha && in.params.Get("header_acao") == "1" {
		w.Header().Set("Access-Control-Allow-Origin", "*")
	}
	asked := in.params.Get("json")
	if s.o.AlwaysPlain || asked == "0" || asked == "" && s.o.PlainByDefault {
		w.Header().Set("Content-Type", "text/html") // as the vendor's server has it
		_, _ = w.Write([]byte(a.plainText()))
		return
	}
	body := a.body
	switch {
	case a.code != "":
		body = map[string]any{"status": 0, "request": a.code}
	case body == nil:
		body = map[string]any{"status": 1, "request": a.value}
		for name, v := range a.more {
			body[name] = v
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

func (a answer) plainText() string {
	text := a.plain
	if text == "" {
		text = fmt.Sprint(a.value)
	}
	switch {
	case a.code != "":
		return a.code
	case a.bare:
		return text
	}
	return "OK|" + text
}

// open are the tasks that hold a thread.
func (s *Service) openTasks(now time.Time) int {
	n := 0
	for _, t := range s.order {
		if !t.over(now) {
			n++
		}
	}
	return n
}

func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// input is a request's parameters, however they came.
type input struct {
	key    string
	params url.Values // without the key
	image  []byte
}

func read(r *http.Request) (input, bool) {
	in := input{params: url.Values{}}
	contentType := r.Header.Get("Content-Type")
	switch {
	case r.Method == http.MethodGet:
	case r.Method != http.MethodPost:
		return in, false
	case strings.HasPrefix(contentType, "multipart/form-data"):
		if r.ParseMultipartForm(4<<20) != nil {
			return in, false
		}
		in.image = readFile(r)
	case !strings.HasPrefix(contentType, "application/x-www-form-urlencoded"):
		return in, false // no document shows a body of JSON
	}
	if r.ParseForm() != nil {
		return in, false
	}
	for name, values := range r.Form {
		in.params[name] = values
	}
	in.key = in.params.Get("key")
	in.params.Del("key")
	return in, true
}

// SetThreads changes the plan.
func (s *Service) SetThreads(n int) { s.mu.Lock(); defer s.mu.Unlock(); s.threads = n }

// SetForeign says how many threads others of the account hold.
func (s *Service) SetForeign(n int) { s.mu.Lock(); defer s.mu.Unlock(); s.foreign = n }

// Calls are those of a path, in order; of all paths where it is "".
func (s *Service) Calls(path string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []Call
	for _, c := range s.calls {
		if path == "" || c.Path == path {
			calls = append(calls, c)
		}
	}
	return calls
}

// Tasks are those that were taken, in order: what the account paid for.
func (s *Service) Tasks() []Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	var tasks []Task
	for _, t := range s.order {
		tasks = append(tasks, t.Task)
	}
	return tasks
}

// MostOpen is how many tasks were open at once, and Refused how many
// submissions found no thread.
func (s *Service) MostOpen() int { s.mu.Lock(); defer s.mu.Unlock(); return s.most }

// Refused is described with MostOpen.
func (s *Service) Refused() int { s.mu.Lock(); defer s.mu.Unlock(); return s.refused }

// number is an ID as the service makes them.
func number(n int) string { return strconv.Itoa(70_000_000 + n) }
