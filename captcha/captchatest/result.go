package captchatest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// result is res.php.
func (s *Service) result(now time.Time, in input) answer {
	switch action := in.params.Get("action"); {
	case action == "get" && s.o.TwoCaptcha && in.params.Has("ids"):
		return s.several(now, in.params.Get("ids"))
	case action == "get", action == "get2" && s.o.TwoCaptcha:
		a := s.get(now, in.params.Get("id"))
		if action == "get2" && a.code == "" {
			a.plain = fmt.Sprint(a.value) + "|0.001"
			a.more = map[string]any{"price": "0.001"}
		}
		return a
	case action == "getbalance":
		return answer{value: "0", bare: true} // of a plan by threads
	case action == "threadsinfo":
		working := min(s.openTasks(now)+s.foreign, s.threads)
		return answer{
			body:  map[string]any{"status": 1, "threads": s.threads, "working_threads": working, "free_threads": s.threads - working},
			plain: fmt.Sprintf(`{"threads":%d,"working_threads":%d,"free_threads":%d}`, s.threads, working, s.threads-working),
			bare:  true,
		}
	case action == "reportbad", action == "reportgood":
		if _, a := s.find(in.params.Get("id")); a.code != "" {
			return a
		}
		return answer{value: "OK_REPORT_RECORDED", bare: true}
	}
	return failed("ERROR_EMPTY_ACTION")
}

func (s *Service) find(id string) (*task, answer) {
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		return nil, failed("ERROR_WRONG_ID_FORMAT")
	}
	t := s.tasks[id]
	if t == nil {
		return nil, failed("ERROR_WRONG_CAPTCHA_ID")
	}
	return t, answer{}
}

func (s *Service) get(now time.Time, id string) answer {
	t, a := s.find(id)
	if t == nil {
		return a
	}
	t.polls = append(t.polls, now)
	if s.o.TwoCaptcha && len(t.polls) > 30 {
		return failed("ERROR: 1005")
	}
	switch {
	case !t.over(now):
		return failed("CAPCHA_NOT_READY")
	case t.outcome.Code != "":
		return failed(t.outcome.Code)
	}
	return s.solved(t)
}

func (s *Service) several(now time.Time, ids string) answer {
	var all []string
	for _, id := range strings.Split(ids, ",") {
		all = append(all, strings.TrimPrefix(s.get(now, id).plainText(), "OK|"))
	}
	return answer{value: strings.Join(all, "|")}
}

// Polls are the times at which a task's answer was asked for.
func (s *Service) Polls(id string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tasks[id]; t != nil {
		return append([]time.Time(nil), t.polls...)
	}
	return nil
}

const userAgent = "Mozilla/5.0 (X11; Linux x86_64; captchatest)"

// solved is the answer to a task, in the shape of its method.
func (s *Service) solved(t *task) answer {
	if t.token == "" {
		t.token = t.outcome.Token
		if t.token == "" {
			t.token = s.token(t)
		}
	}
	switch t.Method {
	case "geetest", "geetest_v4":
		return shaped(s.o.GeeTest, geeTest(t))
	case "lemin":
		return shaped(Object, [][2]string{{"answer", t.token}, {"challenge_uuid", "uuid-" + t.ID}})
	case "cloudflare_challenge":
		return s.cloudflare(t)
	case "captchafox":
		return answer{value: t.token, more: map[string]any{"user_agent": userAgent}}
	case "post", "base64":
		if t.outcome.Token == "" && t.Params.Get("recaptcha") == "1" {
			return answer{value: "click:1/4/5/7"}
		}
		return answer{value: t.token}
	case "bls":
		return answer{value: "1,3,5"}
	}
	return answer{value: t.token}
}

func geeTest(t *task) [][2]string {
	if t.Method == "geetest_v4" || t.Params.Get("version") == "4" {
		return [][2]string{{"captcha_id", t.Params.Get("captcha_id")}, {"lot_number", "lot" + t.ID}, {"pass_token", t.token}, {"gen_time", "1"}, {"captcha_output", "out"}}
	}
	return [][2]string{{"challenge", t.Params.Get("challenge")}, {"validate", t.token}, {"seccode", t.token + "|jordan"}}
}

func shaped(s Shape, fields [][2]string) answer {
	object, named, pairs := map[string]string{}, map[string]string{}, []string{}
	for _, f := range fields {
		object[f[0]], named["geetest_"+f[0]] = f[1], f[1]
		pairs = append(pairs, f[0]+":"+f[1])
	}
	if _, v3 := object["validate"]; v3 && s != Pairs {
		object = named
	}
	text, _ := json.Marshal(object)
	switch s {
	case Text:
		return answer{value: string(text)}
	case Pairs:
		return answer{value: strings.Join(pairs, ",")}
	}
	return answer{value: object, plain: string(text)}
}

func (s *Service) cloudflare(t *task) answer {
	ua := t.Params.Get("userAgent")
	if ua == "" {
		ua = userAgent
	}
	switch s.o.Cloudflare {
	case Text:
		return answer{value: t.token, more: map[string]any{"user_agent": ua}}
	case Pairs:
		return answer{value: "cf_clearance=" + t.token + ";user_agent=" + ua}
	}
	text, _ := json.Marshal(map[string]any{"cookies": map[string]string{"cf_clearance": t.token}, "userAgent": ua})
	return answer{value: json.RawMessage(text), plain: string(text)}
}

// token makes one, and lets the verifier know it.
func (s *Service) token(t *task) string {
	key := t.Params.Get("googlekey")
	if key == "" {
		key = t.Params.Get("sitekey")
	}
	token := fmt.Sprintf("token.%s.%s", t.ID, strings.Repeat("x", 40))
	if s.o.Verifier != nil && key != "" {
		host := ""
		if u, err := url.Parse(t.Params.Get("pageurl")); err == nil {
			host = u.Hostname()
		}
		s.o.Verifier.Issue(Issued{Token: token, SiteKey: key, Action: t.Params.Get("action"), Hostname: host, At: t.Created.Add(t.outcome.After)})
	}
	return token
}
